"""How a PyTorch program is watched: what is installed where, and taken away again.

`mode` sees operations, `threads` brings it to new threads, `modules` and `training` say what tensors are and
what the program is doing. Nothing here is imported before a tracker is used: `import ttmem` does not import
PyTorch.
"""
