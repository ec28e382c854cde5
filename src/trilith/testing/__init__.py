"""For tests, ours and yours: in-memory twins of what touches the world, and contract suites for what plugs in.

Import from the modules: `trilith.testing.clock`, `trilith.testing.backends`, `trilith.testing.backend_contract`,
`trilith.testing.load`, `trilith.testing.mounts`.
"""
