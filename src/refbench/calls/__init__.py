"""Calls: everything that goes out of this process, to servers, subprocesses and users' functions; the transport is the
only way to a network, limited, retried and paid.
"""
