"""Bytes to the arguments of a method, and its result to bytes. One file an encoding; heavy libraries load on use."""
