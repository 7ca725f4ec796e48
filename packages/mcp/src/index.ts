export { GatewayDocuments, type RouteFacts, type ServiceFacts } from "./documents.ts";
export { type McpHttpModules, type McpHttpOptions, type McpHttpServer, serveMcpHttp } from "./http.ts";
export { McpSession, type McpSessionOptions } from "./mcp-session.ts";
export { createMcpServer } from "./server.ts";
export { type McpStdioModules, type McpStdioServer, serveMcpStdio } from "./stdio.ts";
export type { McpServerModules, McpServerOptions } from "./types.ts";
