"""Where did the device memory go? Reads what a run left behind and answers.

    >>> import ttmem
    >>> profile = ttmem.open("model_profile.log")
    >>> profile.summary()["ranks"][0]["peak"]["pool"]

`import ttmem` loads the native module and nothing else; whatever needs PyTorch imports it when it is used.
"""

from ttmem._native import Error, NoMemoryData, Profile, UnknownFormat, __version__, open

__all__ = [
    "Error",
    "NoMemoryData",
    "Profile",
    "UnknownFormat",
    "__version__",
    "open",
]
