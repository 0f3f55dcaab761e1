"""Drop-in runs: a program that was written for torch.compile runs on stator, unchanged.

Stage: above the API. `switch.install` puts functions of stator in place of torch's, `uninstall`
takes them away again. Nothing here loads torch._dynamo; what the program loads of it is changed
when it appears (`arrival`). This file loads nothing, so that a process can wait for torch cheaply.
"""
