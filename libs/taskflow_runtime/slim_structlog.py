"""structlog, loaded without Rich.

structlog loads Rich wherever it is installed, to paint tracebacks that we do not use.  That takes 140 of 240 ms,
in each of six processes, while somebody waits for `taskflow up`.  Other modules may load Rich before or after.
"""

import sys

_HIDE = "rich" not in sys.modules and "structlog" not in sys.modules

if _HIDE:
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python says "not installed"
try:
    import structlog
finally:
    if _HIDE:
        del sys.modules["rich"]

__all__ = ["structlog"]
