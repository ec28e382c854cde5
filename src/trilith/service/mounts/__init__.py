"""Applications that answer HTTP by themselves below a path of a service: ASGI, WSGI, and each other `MountedApp`."""
