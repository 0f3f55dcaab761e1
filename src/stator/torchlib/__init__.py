"""The one door to torch: every name of torch that is not public, and what differs by its version.

Nothing else in stator names something private of torch (`tests/test_torchlib.py` refuses it). Each
name stands here with what it is for, and with what happens where a torch doesn't have it: a name
that is *needed* is a `MissingNameError`, an ImportError in words; an *optional* one is replaced by
something that does without it. `door.py` holds the two, `versions.py` the versions that are known.

The modules are by subject, so that what is imported late in torch is imported late here:

| module | what |
|---|---|
| `versions` | which torch this is, and whether it is one that stator was tested with |
| `tensors` | the classes below `torch.Tensor`, and running without their `__torch_function__` |
| `modes` | torch's stacks of modes, dispatch keys, scopes of grad mode, autocast, inference |
| `settings` | flags that decide which kernel runs |
| `operators` | operators as objects, and operators whose names are private |
| `autograd` | views, versions of tensors, saved tensors, the engine |
| `modules` | what `nn.Module` and optimizers call inside |
| `fakes` | fake tensors, and what they raise |
| `shapes` | sizes that are not known: ranges and expressions |
| `transforms` | `torch.func`, and trees of arguments |
| `aot` | AOTAutograd, and what a backend finds around it |
| `tracers` | other tracers, and what they leave behind |
"""
