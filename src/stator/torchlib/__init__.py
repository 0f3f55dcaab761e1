"""The one door to torch: every name of torch that is not public, and what differs by its version.

No other code in stator uses something private of torch (`tests/torchlib` refuses it). Each
name stands here with what it is for, and with what happens where a torch doesn't have it: a name
that is *needed* is a `MissingNameError`, an ImportError in words; an *optional* one is replaced by
something that does without it. `door.py` holds the two, `versions.py` the versions that are known.
Texts by which functions and classes of torch are recognised when a program calls them
(`graph/leaves/leaf_tables.py`) are data: where torch has no such name, nothing is recognised by it.

The modules are by subject, so that what is imported late in torch is imported late here:

| module | what |
|---|---|
| `versions` | which torch this is, and whether it is one that stator was tested with |
| `tensors` | the classes below `torch.Tensor`, and running without their `__torch_function__` |
| `modes` | torch's stacks of modes, dispatch keys, scopes of grad mode, autocast, inference |
| `settings` | flags that decide which kernel runs |
| `operators` | operators as objects, and operators whose names are private |
| `autograd` | views, versions of tensors, saved tensors, the engine |
| `fakes` | fake tensors, and what they raise |
| `shapes` | sizes that are not known: ranges and expressions |
| `transforms` | `torch.func`, and trees of arguments |
| `backends` | what a backend finds around it |
| `aot` | AOTAutograd, which is loaded late |
| `inductor`, `arrays` | Inductor, and torch's numpy functions, which are loaded late |
| `tracers` | other tracers, and what they leave behind |
| `attributes` | private attributes of torch's objects |
| `loading` | modules that bring torch along; loads none itself |
"""
