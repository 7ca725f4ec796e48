import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { silentLog, systemClock } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { startPostgres } from "@turnpike/localnet";
import { migratePortalDb, mintToken, type TokenKeyOptions } from "@turnpike/portal-db";
import pg from "pg";
import { createRolePool } from "../../packages/portal-db/src/database/pool.ts";
import { type RoleViews, readRoleViews } from "../../packages/portal-db/src/database/role-views.ts";
import type { Benchmark, BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
import type { LoadOperations } from "../lib/load.ts";
import { processCpuMicros, processTree } from "../lib/process.ts";
import type { Report, Row, Table } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { BarePgOperations } from "./children/bare-pg.ts";
import type { OurDbOperations } from "./children/our-db.ts";
import { FIXTURE, requestOf, statementsOf, WORKLOADS, type Workload } from "./workloads.ts";

/** Requests under way at once, on both sides. */
const AT_ONCE = 16;
const APPLICATIONS = 200;
/** Until V8 has compiled what is measured: with 0.3 s the first half-second round gave ours a third less. */
const WARM_UP_MS = 2_000;
/** The product's rate limits count, and refuse nothing. */
const FAR = { perTokenPerSecond: 1_000_000, refusedPerAddressPerSecond: 1_000_000 };

interface Ground {
  readonly databaseUrl: string;
  readonly views: RoleViews;
  readonly secret: string;
  readonly tokens: Readonly<Record<Workload["role"], string>>;
  /** Version of PostgreSQL. */
  readonly postgres: string;
  /** CPU time of all its processes, in microseconds. */
  readonly postgresMicros: () => number;
}

/** A durable PostgreSQL with the tables, some rows, and tokens. */
async function prepare(owned: AsyncDisposableStack): Promise<Ground> {
  const server = owned.use(await startPostgres({ durable: true }));
  const postgresMicros = (): number => processTree(server.pid).reduce((total, pid) => total + processCpuMicros(pid), 0);
  const ownerUrl = await server.createDatabase("portal");
  const password = randomBytes(16).toString("hex");
  await migratePortalDb({ url: ownerUrl, authenticatorPassword: password }, { log: silentLog });
  const owner = new pg.Client({ connectionString: ownerUrl, options: "-c search_path=portal" });
  await owner.connect();
  let postgres: string;
  try {
    await owner.query(
      "insert into portal_applications (portal_account_id, portal_application_name) " +
        "select $1, 'application ' || n from generate_series(1, $2::int) n",
      [FIXTURE, APPLICATIONS],
    );
    await owner.query("analyze");
    postgres = (await owner.query<{ server_version: string }>("show server_version")).rows[0]?.server_version ?? "";
  } finally {
    await owner.end();
  }
  const url = new URL(ownerUrl);
  url.username = "portal_authenticator";
  url.password = password;
  await using pool = createRolePool(
    { url: url.href, poolSize: 1, queueLimit: 1, connectTimeoutMs: 5_000 },
    { log: silentLog },
  );
  const views = await readRoleViews(pool);
  const secret = randomBytes(32).toString("hex");
  const key: TokenKeyOptions = { kid: undefined, algorithm: "HS256", material: secret };
  const mint = async (role: Workload["role"]): Promise<string> => {
    const options = { role, accountId: undefined, lifetimeSeconds: 3_600, audience: "postgrest", key };
    return (await mintToken(options, { clock: systemClock })).token;
  };
  const tokens = { reader: await mint("reader"), admin: await mint("admin") };
  return { databaseUrl: url.href, views, secret, tokens, postgres, postgresMicros };
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
  /** Of PostgreSQL for one. */
  readonly postgresMicros: number;
  /** Of the load generator for one. */
  readonly loadMicros: number;
}

interface Sides {
  readonly ours: Child<OurDbOperations>;
  readonly load: Child<LoadOperations>;
  readonly bare: Child<BarePgOperations>;
  readonly port: number;
  readonly ground: Ground;
}

async function measureOurs(workload: Workload, durationMs: number, sides: Sides): Promise<Sample> {
  const { ours, load, port, ground } = sides;
  const cpuBefore = await ours.cpuMicros();
  const postgresBefore = ground.postgresMicros();
  const { status, role } = workload;
  const request = requestOf(workload, ground.tokens[role]);
  const run = { port, request, connections: AT_ONCE, status, durationMs };
  const { answers, elapsedMs, cpuMicros: loadMicros } = await load.ask("run", run);
  return {
    perSecond: (answers / elapsedMs) * 1_000,
    cpuMicros: ((await ours.cpuMicros()) - cpuBefore) / answers,
    postgresMicros: (ground.postgresMicros() - postgresBefore) / answers,
    loadMicros: loadMicros / answers,
  };
}

async function measureBare(
  workload: Workload,
  isPipelined: boolean,
  durationMs: number,
  sides: Sides,
): Promise<Sample> {
  const { portalDb } = loadConfig({ env: {}, overrides: {} });
  const statements = statementsOf(workload, sides.ground.views[workload.role], {
    maxRows: portalDb.maxRows,
    statementTimeoutMs: portalDb.statementTimeoutMs[workload.role],
    lockTimeoutMs: portalDb.lockTimeoutMs,
  });
  const postgresBefore = sides.ground.postgresMicros();
  const { answers, elapsedMs, cpuMicros } = await sides.bare.ask("run", {
    ...statements,
    isPipelined,
    concurrency: AT_ONCE,
    durationMs,
  });
  return {
    perSecond: (answers / elapsedMs) * 1_000,
    cpuMicros: cpuMicros / answers,
    postgresMicros: (sides.ground.postgresMicros() - postgresBefore) / answers,
    loadMicros: 0,
  };
}

async function benchOne(
  workload: Workload,
  { rounds, roundMs, progress }: { readonly rounds: number; readonly roundMs: number } & Pick<BenchOptions, "progress">,
  sides: Sides,
): Promise<{ readonly rows: readonly Row[]; readonly lines: Table["lines"] }> {
  const found: { readonly ours: Sample; readonly plain: Sample; readonly pipelined: Sample }[] = [];
  for (let round = -1; round < rounds; round++) {
    progress(`${workload.name}: ${round < 0 ? "warming up" : `round ${round + 1} of ${rounds}`}`);
    const durationMs = round < 0 ? Math.max(WARM_UP_MS, roundMs / 2) : roundMs;
    // alternating, so that none always has the warmer machine
    const isOursFirst = round % 2 === 0;
    const first = isOursFirst ? await measureOurs(workload, durationMs, sides) : undefined;
    const plain = await measureBare(workload, false, durationMs, sides);
    const pipelined = await measureBare(workload, true, durationMs, sides);
    const ours = first ?? (await measureOurs(workload, durationMs, sides));
    if (round >= 0) found.push({ ours, plain, pipelined });
  }
  const row = (name: string, title: string, side: "plain" | "pipelined", unit: "/s" | "µs"): Row => {
    const of = ({ perSecond, cpuMicros }: Sample): number => (unit === "/s" ? perSecond : cpuMicros);
    return {
      name,
      title,
      ours: { value: median(found.map(({ ours }) => of(ours))), unit },
      reference: { value: median(found.map((one) => of(one[side]))), unit },
      ratioOf: "ours / reference",
      ratio: median(found.map((one) => of(one.ours) / of(one[side]))),
    };
  };
  const { name, title } = workload;
  const rows = [
    { ...row(`db.${name}`, title, "plain", "/s"), aim: { op: ">=", value: 0.8 } },
    row(`db.${name}-pipelined`, "… to pg with its statements pipelined", "pipelined", "/s"),
    row(`db.${name}-cpu`, "… CPU of the process for one, to plain pg", "plain", "µs"),
  ] as const;
  const lines = (["ours", "plain", "pipelined"] as const).map((side) => {
    const of = (read: (sample: Sample) => number): string => median(found.map((one) => read(one[side]))).toFixed(0);
    return [
      `${name}, ${side}`,
      of(({ perSecond }) => perSecond),
      of(({ cpuMicros }) => cpuMicros),
      of(({ postgresMicros }) => postgresMicros),
      of(({ loadMicros }) => loadMicros),
    ];
  });
  return { rows, lines };
}

async function run({ quick, only, progress, seconds }: BenchOptions): Promise<Report> {
  await using owned = new AsyncDisposableStack();
  progress("starting PostgreSQL");
  const ground = await prepare(owned);
  const children = join(import.meta.dirname, "children");
  const ours = owned.use(await startChild<OurDbOperations>(join(children, "our-db.ts")));
  const bare = owned.use(await startChild<BarePgOperations>(join(children, "bare-pg.ts")));
  const load = owned.use(await startChild<LoadOperations>(join(import.meta.dirname, "..", "lib", "load.ts")));
  const overrides = { url: ground.databaseUrl, jwt: { secret: ground.secret }, rate: FAR };
  const { port } = await ours.ask("start", { overrides });
  const { poolSize } = loadConfig({ env: {}, overrides: {} }).portalDb;
  await bare.ask("open", { url: ground.databaseUrl, connections: poolSize });
  const sides: Sides = { ours, load, bare, port, ground };
  const rounds = quick ? 1 : 5;
  const roundMs = Math.round((seconds ?? (quick ? 0.5 : 1.2)) * 1_000);
  const rows: Row[] = [];
  const lines: (readonly string[])[] = [];
  for (const workload of WORKLOADS) {
    if (only.length > 0 && !only.includes(workload.name)) continue;
    progress(`${workload.name}: ${workload.title}`);
    const one = await benchOne(workload, { rounds, roundMs, progress }, sides);
    rows.push(...one.rows);
    lines.push(...one.lines);
  }
  return {
    rows,
    tables: [
      {
        title: "where the CPU of one goes, µs",
        head: ["", "a second", "API or driver", "PostgreSQL", "load generator"],
        lines,
      },
    ],
    notes: [
      `PostgreSQL ${ground.postgres} with fsync, over TCP; ${poolSize} connections on both sides, ${AT_ONCE} requests under way; ` +
        `${rounds} rounds of ${roundMs} ms in turn, ratios are the middle of the rounds' own`,
      "the reference sends the very statements that the API makes, prepared, under the same role and settings: begin, statement " +
        "and commit one after another, as pg does by itself, or all at once (pipelined). Ours sends one message with one Sync, which " +
        "needs no begin and commit for a read. The reference has no HTTP, no tokens, " +
        "and no load generator in another process; with ours, three processes share the cores with PostgreSQL",
    ],
  };
}

/** The benchmark `db`. */
export const dbBenchmark: Benchmark = {
  what: "the management data API beside the same statements through bare pg",
  parts: WORKLOADS.map(({ name }) => name),
  packages: ["pg", "fastify", "jose"],
  run,
};
