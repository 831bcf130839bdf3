"""Passwords in URLs never leave the process: not in logs, not in error sentences."""

import re

# A broker's password may hold a slash that somebody forgot to escape; elsewhere a slash ends the address.
_BROKER = re.compile(r"((?:rediss?|unix|valkeys?)://[^:@/\s\"']*):[^\s\"']*@", re.IGNORECASE)
_ANY = re.compile(r"(\w+://[^:@/\s\"']*):[^/\s\"']*@")
_QUERY = re.compile(r"([?&]password=)[^&\s\"']+", re.IGNORECASE)


def mask(text: str) -> str:
    """The text with the password of every URL in it replaced by ***."""
    if "://" not in text:
        return text
    for pattern, shown in ((_BROKER, r"\1:***@"), (_ANY, r"\1:***@"), (_QUERY, r"\1***")):
        text = pattern.sub(shown, text)
    return text
