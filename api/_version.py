"""The version of the installed package.

Example:
    >>> import redraft
    >>> redraft.__version__.split(".")[0].isdigit()
    True
"""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("redraft")
