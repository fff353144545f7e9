"""The hooks that track a PyTorch program.

`mode` tracks operations, `threads` installs it in new threads, `modules` and `training` classify tensors and
name what the program is doing. Only a tracker imports this package: `import ttmem` does not import PyTorch.
"""
