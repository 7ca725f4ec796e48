import type { FamilyId, Service } from "@turnpike/catalogue";

/** What the free relay does not forward. A `*` at the end stands for any rest; letter case and white space count for nothing. */
export interface DeniedMethods {
  readonly names: readonly string[];
  readonly why: string;
  /** Names that fit but are forwarded. */
  readonly but?: readonly string[];
}

const EVM: readonly DeniedMethods[] = [
  {
    names: [
      "admin_*",
      "account_*",
      "catalyst_*",
      "chequebook_*",
      "clique_*",
      "db_*",
      "dev_*",
      "engine_*",
      "faucet_*",
      "flashbots_*",
      "ibft_*",
      "istanbul_*",
      "les_*",
      "lespay_*",
      "light_*",
      "miner_*",
      "perm_*",
      "plugins_*",
      "qbft_*",
      "shh_*",
      "swarmfs_*",
      "testing_*",
      "validator_*",
      "vault_*",
      "erigon_cacheCheck",
      "erigon_nodeInfo",
      "eth_getWork",
      "eth_submitHashrate",
      "eth_submitWork",
    ],
    why: "controls the node, its peers or its mining",
  },
  {
    names: ["parity_*"],
    but: [
      "parity_getBlockReceipts",
      "parity_pendingTransactions",
      "parity_nextNonce",
      "parity_listStorageKeys",
      "parity_allTransactions",
      "parity_chain",
      "parity_chainStatus",
      "parity_mode",
      "parity_getBlockHeaderByNumber",
      "parity_verifySignature",
      "parity_versionInfo",
    ],
    why: "controls the node or its accounts",
  },
  {
    names: ["anvil_*", "evm_*", "hardhat_*", "tenderly_*", "ganache_*"],
    why: "changes a development chain at will",
  },
  {
    names: [
      "debug_backtraceAt",
      "debug_blockProfile",
      "debug_chaindb*",
      "debug_cpuProfile",
      "debug_free*",
      "debug_gc*",
      "debug_goTrace",
      "debug_memStats",
      "debug_mutexProfile",
      "debug_set*",
      "debug_stacks",
      "debug_standardTrace*",
      "debug_start*",
      "debug_stop*",
      "debug_verbosity",
      "debug_vmodule",
      "debug_write*",
    ],
    why: "sets the node back, or writes its profiles and traces to its disk",
  },
  {
    names: [
      "eea_*",
      "personal_*",
      "priv_*",
      "wallet_*",
      "eth_resend",
      "eth_sendTransaction*",
      "eth_sendUnsignedTransaction",
      "eth_sign*",
    ],
    why: "signs with the node's own keys; send what you have signed with `eth_sendRawTransaction`",
  },
];

const COSMOS: readonly DeniedMethods[] = [
  { names: ["unsafe_*", "dial_peers", "dial_seeds"], why: "controls the node and its peers" },
];

const TRON_PATHS: readonly DeniedMethods[] = [
  {
    names: [
      "/wallet/addtransactionsign",
      "/wallet/createaddress",
      "/wallet/easytransfer*",
      "/wallet/generateaddress",
      "/wallet/gettransactionsign*",
      "/wallet/createspendauthsig",
      "/wallet/getspendingkey",
      "/wallet/getexpandedspendingkey",
    ],
    why: "takes or makes a private key",
  },
  { names: ["/monitor/*", "/net/*"], why: "controls the node" },
];

const BITCOIN: readonly DeniedMethods[] = [
  {
    names: [
      "addconnection",
      "addnode",
      "addpeeraddress",
      "clearbanned",
      "disconnectnode",
      "dumptxoutset",
      "echo*",
      "generate*",
      "importmempool",
      "invalidateblock",
      "loadtxoutset",
      "logging",
      "mockscheduler",
      "preciousblock",
      "prioritisetransaction",
      "pruneblockchain",
      "reconsiderblock",
      "savemempool",
      "setban",
      "setmocktime",
      "setnetworkactive",
      "stop",
      "submitblock",
      "submitheader",
      "syncwithvalidationinterfacequeue",
    ],
    why: "controls the node, its peers or its chain",
  },
  {
    names: [
      "abandontransaction",
      "abortrescan",
      "addmultisigaddress",
      "backupwallet",
      "bumpfee",
      "createwallet*",
      "dump*",
      "encryptwallet",
      "getnewaddress",
      "getrawchangeaddress",
      "import*",
      "keypoolrefill",
      "loadwallet",
      "lockunspent",
      "migratewallet",
      "psbtbumpfee",
      "removeprunedfunds",
      "rescanblockchain",
      "restorewallet",
      "send",
      "sendall",
      "sendmany",
      "sendtoaddress",
      "set*",
      "sign*",
      "unloadwallet",
      "upgradewallet",
      "wallet*",
    ],
    why: "uses the node's wallet",
  },
];

/** The methods and paths of each family that the free relay refuses. Paths begin with a slash. */
export const DENIED: Readonly<Record<FamilyId, readonly DeniedMethods[]>> = {
  evm: EVM,
  cosmos: COSMOS,
  solana: [{ names: ["deregisterNode", "registerNode", "setLogFilter", "validatorExit"], why: "controls the node" }],
  near: [{ names: ["adv_*", "sandbox_*"], why: "changes the node's state at will" }],
  sui: [],
  radix: [{ names: ["/prometheus/*", "/system/*"], why: "controls the node" }],
  tron: [...EVM, ...TRON_PATHS],
  bitcoin: BITCOIN,
  beacon: [
    {
      names: [
        "/eth/v1/admin/*",
        "/eth/v1/keystores*",
        "/eth/v1/remotekeys*",
        "/lighthouse/*",
        "/lodestar/*",
        "/nimbus/*",
        "/prysm/*",
        "/teku/*",
      ],
      why: "controls the node and its keys",
    },
  ],
  search: [],
  http: [],
};

interface Rules {
  readonly exact: ReadonlySet<string>;
  readonly prefixes: readonly string[];
  readonly but: ReadonlySet<string>;
  /** Verdicts by name as it was sent. */
  readonly told: Map<string, boolean>;
}

/** What a lenient reader may drop or fold: white space, control and format characters, letter case, wide forms. */
const IGNORED = /[\s\p{C}\p{Z}]/gu;
const PLAIN = /^[A-Za-z0-9_/]*$/;

function normalise(name: string): string {
  return (PLAIN.test(name) ? name : name.normalize("NFKC").replace(IGNORED, "")).toLowerCase();
}

function rulesOf(families: readonly FamilyId[]): Rules {
  const groups = families.flatMap((family) => DENIED[family]);
  const names = groups.flatMap((group) => group.names).map(normalise);
  return {
    exact: new Set(names.filter((name) => !name.endsWith("*"))),
    prefixes: names.filter((name) => name.endsWith("*")).map((name) => name.slice(0, -1)),
    but: new Set(groups.flatMap((group) => group.but ?? []).map(normalise)),
    told: new Map(),
  };
}

const known = new WeakMap<Service, Rules>();

/** True for a method, or a path with its slash, that the free relay never forwards to any of the service's families. */
export function isDenied(service: Service, name: string): boolean {
  let rules = known.get(service);
  if (rules === undefined) {
    rules = rulesOf(service.families);
    known.set(service, rules);
  }
  const told = rules.told.get(name);
  if (told !== undefined) return told;
  const text = normalise(name);
  const isIn = rules.exact.has(text) || (rules.prefixes.some((one) => text.startsWith(one)) && !rules.but.has(text));
  if (rules.told.size < MAX_TOLD && name.length <= MAX_TOLD_CHARS) rules.told.set(name, isIn);
  return isIn;
}

/** Names whose verdict is kept: callers use few, and may send any. */
const MAX_TOLD = 512;
const MAX_TOLD_CHARS = 64;
