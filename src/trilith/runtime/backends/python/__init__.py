"""Python models as Triton's Python backend runs them: an unmodified `model.py`, one supervised process an instance.

    backend          a model in the runtime: sends it requests, keeps its process alive
    loading          how a process loads a model
    supervision      what to do about a process that dies or falls silent (pure)
    process          starting a process by exec, watching it, its last words
    messages         what is said while a model is loaded, and beside its requests
    packing          requests and answers as frames
    completion       the configuration, before and after the model completed it
    environment      a model's own `requirements.txt`
    worker           the process: loads `model.py`, executes
    pb_utils/        what `import triton_python_backend_utils` gives a model

Rule: the runtime's side never imports a model, nor `pb_utils`; the process never imports the runtime's side.
"""
