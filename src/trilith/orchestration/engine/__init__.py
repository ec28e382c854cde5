"""Engines place and supervise replicas. `local` is this machine's: an agent, one gateway, worker processes."""
