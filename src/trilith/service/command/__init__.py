"""Services whose replica runs another HTTP server, and passes to it what comes: `@trilith.service(cmd=[...])`."""
