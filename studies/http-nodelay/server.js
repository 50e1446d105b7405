// The study's peer: Node.js `http` answering the current time in milliseconds.
const http = require("http");

const [port] = process.argv.slice(2);
http
  .createServer((_, response) => response.end(String(Date.now())))
  .listen(Number(port), "127.0.0.1");
