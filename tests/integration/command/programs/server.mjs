// A server of Node's: the port is where its hosts put it, in the environment.
import { createServer } from "node:http";

createServer((request, response) => {
  if (request.url === "/health") return response.end("well");
  response.setHeader("content-type", "text/plain");
  let size = 0;
  request.on("data", (piece) => (size += piece.length));
  request.on("end", () => response.end(`${request.method} ${request.url} ${size}`));
}).listen(process.env.PORT, "127.0.0.1");
