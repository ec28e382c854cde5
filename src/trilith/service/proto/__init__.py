"""Services over gRPC: a `.proto` and the methods of a class, matched once; messages and Python values, both ways.

Rule 1: user messages are read and written in the process that runs the method. The gateway passes their octets on.
Rule 2: protobuf is imported when the first service asks for it. Descriptors lie in pools of their own, so that neither
what a program imports (`ocr_pb2`) nor two services that have the same file get into each other's way.
"""
