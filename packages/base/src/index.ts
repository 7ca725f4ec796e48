export { assertUsd, decimalToUnits, USD_AMOUNT, unitsToDecimal } from "./amounts.ts";
export {
  type BatchFault,
  type BatchHandlers,
  type BatchResult,
  BatchThreads,
  type BatchThreadsModules,
  type BatchThreadsOptions,
  serveBatches,
} from "./batch-threads.ts";
export {
  type AccountAddress,
  type Address,
  type AddressBytes,
  type Brand,
  type NetworkId,
  type RequestId,
  type ServiceId,
  type SettlementId,
  sameAddress,
} from "./brand.ts";
export { type Bus, type BusListener, BusListeners, joinBuses, MAX_BUS_MESSAGE_BYTES, noBus } from "./bus.ts";
export { ByteBudget } from "./byte-budget.ts";
export {
  asBuffer,
  base64ToBytes,
  bytesEqual,
  bytesToBase64,
  bytesToHex,
  bytesToHex0x,
  bytesToUtf8,
  concatBytes,
  hexToBytes,
  utf8ToBytes,
} from "./bytes.ts";
export { type CheckedLookupOptions, checkedLookup, isPrivateHost, type ResolveHost } from "./checked-lookup.ts";
export { ClientByteBudget, type ClientBytes } from "./client-byte-budget.ts";
export { type ClientIpOf, createClientIp, type Ip, truncateIp } from "./client-ip.ts";
export { clientKey, clientKeys } from "./client-key.ts";
export { type ClientKey, ClientQueue, type ClientQueueOptions } from "./client-queue.ts";
export { type Clock, type Random, systemClock } from "./clock.ts";
export { connectionCounts } from "./connection-counts.ts";
export { isConnectionFault } from "./connection-fault.ts";
export {
  ConnectionGuard,
  type ConnectionGuardModules,
  type ConnectionLimits,
  type ConnectionRefusal,
  createGuardedServer,
  guardConnections,
  guardServer,
  type IdleTime,
} from "./connection-guard.ts";
export { CONNECTION_METRICS } from "./connection-metrics.ts";
export { ACCEPT_GZIP, hasOneCoding } from "./content-coding.ts";
export { type Deadline, Deadlines } from "./deadlines.ts";
export { DenseList, type DenseListItem } from "./dense-list.ts";
export type { DiscoveryFilter } from "./discovery-filter.ts";
export { isEngineLimit } from "./engine-limits.ts";
export {
  AppError,
  type AppErrorDetail,
  ERRORS,
  type ErrorBody,
  type ErrorCode,
  type ErrorRow,
  errorBody,
  errorRow,
  failureCode,
  faultFields,
  isAppError,
  QuotedError,
  RETIRED_CODES,
  thrownCode,
} from "./errors.ts";
export { BOUNDED_EVM_METHODS, EVM_BOUNDS, type EvmBounds } from "./evm-arguments.ts";
export { type EvmBody, type EvmCall, type EvmRules, evmError, evmRefusal, readEvmBody } from "./evm-calls.ts";
export { FaultLogThrottle } from "./fault-log-throttle.ts";
export { type FaultPoints, noFaults } from "./faults.ts";
export {
  type ForeignJson,
  type ForeignJsonFault,
  type ForeignJsonLimits,
  ForeignJsonReader,
  isNestedDeeper,
  readForeignJson,
  SUPPLIER_JSON,
} from "./foreign-json.ts";
export { cutText, visibleLine, visibleText, visibleValue } from "./foreign-text.ts";
export {
  createHostCheck,
  type HostCheck,
  type HostCheckOptions,
  type HostFault,
  type HostHeaders,
  isLoopbackHost,
} from "./host-check.ts";
export { Http2Guard, type Http2GuardModules, type Http2GuardOptions } from "./http2-guard.ts";
export {
  hasLoneSurrogate,
  isRecord,
  type JsonFault,
  type JsonLimits,
  type JsonMember,
  type JsonResult,
  parseJson,
} from "./json.ts";
export { isJson, JsonCheck } from "./json-check.ts";
export { hopJsonMembers } from "./json-hops.ts";
export { joinJsonArray } from "./json-join.ts";
export {
  type JsonMemberSpan,
  type JsonSource,
  type JsonSpan,
  jsonElementSpans,
  jsonMemberSpans,
  jsonText,
  jsonValueEnd,
  skipJsonSpace,
} from "./json-spans.ts";
export { type CompactJson, compactJson, indentJson, jsonMembersNamed } from "./json-text.ts";
export { closeServer, listenOn } from "./listen.ts";
export { hostOf, type Log, silentLog } from "./log.ts";
export { isLoopbackUrl } from "./loopback.ts";
export { andThen, type MaybePromise, withCleanup } from "./maybe-promise.ts";
export { type Labels, type MetricSpec, type Metrics, noMetrics } from "./metrics.ts";
export { nearest } from "./nearest.ts";
export { type NoPlace, Places, type PlacesOptions } from "./places.ts";
export {
  commandLineOf,
  isAlive,
  type ProcessName,
  readPidFile,
  startOf,
  writePidFile,
} from "./processes.ts";
export { isPublicAddress } from "./public-address.ts";
export { looksLikeKey, redacted } from "./redaction.ts";
export { noSpan, noTracer, type Span, type SpanAttributes, type Tracer } from "./tracing.ts";
export { trimEndOf, trimFieldValue } from "./trim.ts";
export { writeAtomically } from "./write-atomically.ts";
export { type AnswerReader, type ReleaseBytes, type SharedBytes, WriteBufferBudget } from "./write-buffer-budget.ts";
