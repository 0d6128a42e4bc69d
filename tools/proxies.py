"""The environment's proxy is for other machines: it cannot reach the servers of this one."""

import os


def without_proxy(*hosts: str) -> None:
    """Have HTTP clients that this process and its children make from now on reach this machine and `hosts` directly.

    They read the environment. Where it has no proxy it is left alone, since the system's settings then hold on macOS.
    """
    excluded = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    proxies = {"http_proxy", "https_proxy", "all_proxy"}.intersection(map(str.lower, os.environ))
    if proxies and excluded.strip() != "*":  # clients take an asterisk for all hosts only if it is alone
        known = dict.fromkeys([*filter(None, excluded.split(",")), "localhost", "127.0.0.1", "::1", *hosts])
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(known)
