"""The methods, each a flow: a generator that yields requests and returns a verdict."""
