import { startTestChain, type TestChain } from "@turnpike/testkit/chain";
import { serveParent } from "../../lib/child.ts";

/** What the chain begins with. */
export interface ChainNodeFacts {
  readonly blockIntervalMs: number;
  readonly blocksPerSession: number;
  /** Address of each supplier, by the name of its operator. */
  readonly supplierUrls: Readonly<Record<string, string>>;
  /** Relays of a session that are to be mined; the chain's default when undefined. */
  readonly targetNumRelays: number | undefined;
}

/** Operations of this child: a node of the relay protocol's chain, which makes blocks by itself. */
export type ChainNodeOperations = {
  readonly start: (facts: ChainNodeFacts) => Promise<{ readonly rpcUrl: string }>;
  readonly height: (params: undefined) => Promise<number>;
};

/** Of the application: no relay of a run is refused because it could not be paid. */
const STAKE_UPOKT = 100_000_000_000_000n;

const owned = new AsyncDisposableStack();
let chain: TestChain | undefined;

serveParent<ChainNodeOperations>(
  {
    async start({ blockIntervalMs, blocksPerSession, supplierUrls, targetNumRelays }) {
      chain = owned.use(
        await startTestChain({
          blockIntervalMs,
          shared: { numBlocksPerSession: BigInt(blocksPerSession) },
          applications: { app: { service: "eth", gateways: ["gateway"], stakeUpokt: STAKE_UPOKT } },
          ...(targetNumRelays === undefined
            ? {}
            : { params: { service: { target_num_relays: `${targetNumRelays}` } } }),
          suppliers: Object.fromEntries(
            Object.entries(supplierUrls).map(([operator, url]) => [operator, { services: ["eth"], url }]),
          ),
        }),
      );
      return { rpcUrl: chain.rpcUrl };
    },
    height: () => Promise.resolve(Number(chain?.heightBlocks ?? 0n)),
  },
  owned,
);
