export { startGrpcServer } from "./grpc/grpc-server.ts";
export { startRestServer } from "./rest/rest-server.ts";
export { type RpcServer, startRpcServer } from "./rpc/rpc-server.ts";
export { AbciQueries } from "./services/abci-queries.ts";
export { apiSurface, type ChainApiOptions } from "./services/base-services.ts";
export { createWriteBuffer } from "./write-buffer.ts";
