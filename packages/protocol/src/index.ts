export {
  type BackendCall,
  type FreeRequest,
  mintFree,
  mintPaid,
  mintParsed,
  mintRelayed,
  type PaidRequest,
  type ParsedRequest,
  type Relayed,
  type RpcType,
  type SchemaCheck,
} from "./stages.ts";
