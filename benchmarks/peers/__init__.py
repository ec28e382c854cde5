"""The same work on Trilith and on what people use today, measured one after the other on one machine."""
