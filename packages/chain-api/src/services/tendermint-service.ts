import type { ClientKey } from "@turnpike/base";
import { type QueryAnswer, refuse } from "@turnpike/chain";
import { BLOCK_PROTOCOL, type Validator } from "@turnpike/cometbft";
import { encodeBech32 } from "@turnpike/crypto";
import { type baseQuery, baseTendermint, createMessage, cryptoEd25519, packAny } from "@turnpike/proto";
import { type ApiMethod, type ApiModules, answered, apiMethod } from "./api-method.ts";
import { CONSENSUS_PREFIX, sdkBlockMessages } from "./block-messages.ts";

/** CometBFT 0.38's number of the peer protocol, and the channels that its nodes offer. */
const P2P_PROTOCOL = 8n;
const CHANNELS = Uint8Array.of(0x40, 0x20, 0x21, 0x22, 0x23, 0x30, 0x38, 0x60, 0x61);
/** Version of the SDK whose answers these are. */
const SDK_VERSION = "v0.53.7";
const MOST_PER_PAGE = 100n;
const ABCI_ROOTS = new Set(["app", "store", "p2p", "custom"]);
const TOO_HIGH = "requested block height is bigger then the chain length";

const schemas = baseTendermint;

async function nodeInfo({ application, source }: ApiModules): Promise<QueryAnswer<baseTendermint.GetNodeInfoResponse>> {
  const node = await source.nodeInfo();
  return answered(
    createMessage(schemas.GetNodeInfoResponseSchema, {
      defaultNodeInfo: {
        protocolVersion: { p2p: P2P_PROTOCOL, block: BLOCK_PROTOCOL, app: 0n },
        defaultNodeId: node.nodeId,
        listenAddr: node.listenAddr,
        network: node.network,
        version: node.version,
        channels: CHANNELS,
        moniker: node.moniker,
        other: { txIndex: "on", rpcAddress: node.rpcAddr },
      },
      applicationVersion: {
        name: "pocket",
        appName: "turnpike",
        version: application.version,
        cosmosSdkVersion: SDK_VERSION,
      },
    }),
  );
}

async function latestBlock({ source }: ApiModules): Promise<QueryAnswer<baseTendermint.GetLatestBlockResponse>> {
  const stored = await source.block();
  if (stored === undefined) return refuse("Unknown", "there is no block yet");
  return answered(createMessage(schemas.GetLatestBlockResponseSchema, sdkBlockMessages(stored)));
}

async function blockByHeight(
  { source }: ApiModules,
  { height }: baseTendermint.GetBlockByHeightRequest,
): Promise<QueryAnswer<baseTendermint.GetBlockByHeightResponse>> {
  if (height > (await source.latestHeightBlocks())) return refuse("InvalidArgument", TOO_HIGH);
  if (height <= 0n) return refuse("Unknown", `height must be greater than 0, but got ${height}`);
  const stored = await source.block(height);
  if (stored === undefined) return refuse("Unknown", `height ${height} is not available`);
  return answered(createMessage(schemas.GetBlockByHeightResponseSchema, sdkBlockMessages(stored)));
}

const toValidator = ({ address, publicKey, votingPower, proposerPriority }: Validator): baseTendermint.Validator =>
  createMessage(schemas.ValidatorSchema, {
    address: encodeBech32(CONSENSUS_PREFIX, address),
    pubKey: packAny(cryptoEd25519.PubKeySchema, createMessage(cryptoEd25519.PubKeySchema, { key: publicKey })),
    votingPower,
    proposerPriority,
  });

interface ValidatorPage {
  readonly blockHeight: bigint;
  readonly validators: baseTendermint.Validator[];
  readonly pagination: { readonly total: bigint };
}

async function validatorPage(
  { source }: ApiModules,
  blockHeight: bigint,
  request: baseQuery.PageRequest | undefined,
): Promise<QueryAnswer<ValidatorPage>> {
  const offset = BigInt.asIntN(64, request?.offset ?? 0n);
  const limit = BigInt.asIntN(64, request?.limit ?? 0n);
  if (offset < 0n) return refuse("InvalidArgument", "offset must greater than 0");
  if (limit < 0n) return refuse("InvalidArgument", "limit must greater than 0");
  const set = await source.validators(blockHeight);
  if (set === undefined) return refuse("Unknown", `could not find validator set for height #${blockHeight}`);
  const wanted = limit === 0n ? MOST_PER_PAGE : limit;
  const page = offset / wanted;
  const size = wanted > MOST_PER_PAGE ? MOST_PER_PAGE : wanted;
  const total = BigInt(set.validators.length);
  const pages = (total + size - 1n) / size;
  if (page >= pages) return refuse("Unknown", `page should be within [1, ${pages}] range, given ${page + 1n}`);
  const validators = set.validators.slice(Number(page * size), Number((page + 1n) * size)).map(toValidator);
  return answered({ blockHeight, validators, pagination: { total } });
}

async function validatorsByHeight(
  modules: ApiModules,
  { height, pagination }: baseTendermint.GetValidatorSetByHeightRequest,
): Promise<QueryAnswer<baseTendermint.GetValidatorSetByHeightResponse>> {
  if (height > (await modules.source.latestHeightBlocks())) return refuse("InvalidArgument", TOO_HIGH);
  if (height <= 0n) return refuse("Unknown", `height must be greater than 0, but got ${height}`);
  const page = await validatorPage(modules, height, pagination);
  return page.ok ? answered(createMessage(schemas.GetValidatorSetByHeightResponseSchema, page.value)) : page;
}

async function latestValidators(
  modules: ApiModules,
  { pagination }: baseTendermint.GetLatestValidatorSetRequest,
): Promise<QueryAnswer<baseTendermint.GetLatestValidatorSetResponse>> {
  // CometBFT answers for the block that is being made.
  const height = (await modules.source.latestHeightBlocks()) + 1n;
  const page = await validatorPage(modules, height, pagination);
  return page.ok ? answered(createMessage(schemas.GetLatestValidatorSetResponseSchema, page.value)) : page;
}

async function abciQuery(
  { application }: ApiModules,
  { path, data, height }: baseTendermint.ABCIQueryRequest,
  client: ClientKey,
): Promise<QueryAnswer<baseTendermint.ABCIQueryResponse>> {
  if (path === "") return refuse("InvalidArgument", "empty query path");
  const [root = ""] = path.replace(/^\//, "").split("/");
  if (!ABCI_ROOTS.has(root)) return refuse("InvalidArgument", `unsupported ABCI query path: ${path}`);
  const { code, codespace, log, value, heightBlocks } = await application.abciQuery(path, data, height, client);
  return answered(
    createMessage(schemas.ABCIQueryResponseSchema, { code, codespace, log, value, height: heightBlocks }),
  );
}

/** `cosmos.base.tendermint.v1beta1.Service` by gRPC path. */
export function tendermintService(modules: ApiModules): Record<string, ApiMethod> {
  const path = (name: string): string => `/cosmos.base.tendermint.v1beta1.Service/${name}`;
  return {
    [path("GetNodeInfo")]: apiMethod(schemas.GetNodeInfoRequestSchema, schemas.GetNodeInfoResponseSchema, () =>
      nodeInfo(modules),
    ),
    [path("GetSyncing")]: apiMethod(schemas.GetSyncingRequestSchema, schemas.GetSyncingResponseSchema, () =>
      answered(createMessage(schemas.GetSyncingResponseSchema)),
    ),
    [path("GetLatestBlock")]: apiMethod(schemas.GetLatestBlockRequestSchema, schemas.GetLatestBlockResponseSchema, () =>
      latestBlock(modules),
    ),
    [path("GetBlockByHeight")]: apiMethod(
      schemas.GetBlockByHeightRequestSchema,
      schemas.GetBlockByHeightResponseSchema,
      (request) => blockByHeight(modules, request),
    ),
    [path("GetLatestValidatorSet")]: apiMethod(
      schemas.GetLatestValidatorSetRequestSchema,
      schemas.GetLatestValidatorSetResponseSchema,
      (request) => latestValidators(modules, request),
    ),
    [path("GetValidatorSetByHeight")]: apiMethod(
      schemas.GetValidatorSetByHeightRequestSchema,
      schemas.GetValidatorSetByHeightResponseSchema,
      (request) => validatorsByHeight(modules, request),
    ),
    [path("ABCIQuery")]: apiMethod(
      schemas.ABCIQueryRequestSchema,
      schemas.ABCIQueryResponseSchema,
      (request, { client }) => abciQuery(modules, request, client),
    ),
  };
}
