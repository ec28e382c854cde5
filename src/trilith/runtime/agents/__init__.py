"""Repository agents: what looks at a model's files, or makes others of them, before the model is loaded."""
