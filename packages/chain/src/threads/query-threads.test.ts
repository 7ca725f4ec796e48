import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { mock, suite, test } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { silentLog } from "@turnpike/base";
import { application, type baseQuery, createMessage, encodeMessage } from "@turnpike/proto";
import { virtualClock } from "@turnpike/testkit";
import { Overlay } from "../state/overlay.ts";
import { Deadline, TimedReads } from "./deadline.ts";
import type { QueryWork, ThreadRequest, ThreadWork } from "./messages.ts";
import { QueryThreads, type ThreadPort } from "./query-threads.ts";

const WORK: QueryWork = { kind: "grpc", path: "/a.b/C", data: new Uint8Array(0), heightBlocks: 0n };
const ANSWER = { ok: true, value: Uint8Array.of(1), heightBlocks: 1n } as const;

function allApplications(pagination: MessageInitShape<typeof baseQuery.PageRequestSchema>): ThreadWork {
  const request = createMessage(application.QueryAllApplicationsRequestSchema, { pagination });
  const data = encodeMessage(application.QueryAllApplicationsRequestSchema, request);
  return { ...WORK, path: "/pocket.application.Query/AllApplications", data };
}

class FakeThread extends EventEmitter {
  readonly got: ThreadRequest[] = [];
  isEnded = false;

  postMessage(request: ThreadRequest): void {
    this.got.push(request);
  }

  ref(): void {}

  open(): void {
    this.emit("message", { kind: "ready" });
  }

  async terminate(): Promise<number> {
    this.isEnded = true;
    return 0;
  }

  answer(runMs?: number): void {
    const request = this.got.shift();
    assert.ok(request?.kind === "work");
    const took = runMs === undefined ? {} : { runMs };
    this.emit("message", { id: request.id, ...took, kind: "grpc", answer: ANSWER });
  }
}

function begin(opts: { readonly threads?: number; readonly maxWaiting?: number; readonly maxUnderWay?: number } = {}) {
  const started: FakeThread[] = [];
  const clock = virtualClock();
  const threads = new QueryThreads(
    {
      name: "query",
      folder: "",
      mapSizeBytes: 1,
      version: "",
      gasPrices: [],
      maxRunMs: 1,
      threads: opts.threads ?? 1,
      maxWaiting: opts.maxWaiting ?? 10,
      maxUnderWay: opts.maxUnderWay ?? 1,
      maxWaitMs: 1_000,
    },
    {
      log: silentLog,
      clock,
      start() {
        const thread = new FakeThread();
        started.push(thread);
        return thread as unknown as ThreadPort;
      },
    },
  );
  return { threads, started, clock };
}

const thread = (started: readonly FakeThread[], at: number): FakeThread => started[at] ?? assert.fail();

suite("query threads", () => {
  test("who waits for a thread's start goes on when it is open, when it has ended, and after a minute", async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const { threads, started } = begin();
      let waited = 0;
      const wait = async (): Promise<void> => {
        await threads.opened();
        waited++;
      };
      const first = wait();
      await new Promise(setImmediate);
      assert.deepEqual([started.length, waited], [1, 0]);
      thread(started, 0).open();
      await first;
      await wait();
      assert.equal(started.length, 1);
      thread(started, 0).emit("exit");
      const second = wait();
      assert.equal(started.length, 2);
      thread(started, 1).emit("exit");
      await second;
      const third = wait();
      mock.timers.tick(60_000);
      await third;
    } finally {
      mock.timers.reset();
    }
  });

  test("each has one piece of work at a time, in the order asked", async () => {
    const { threads, started } = begin({ threads: 2 });
    const asked = [1, 2, 3].map(() => threads.ask(WORK));
    assert.deepEqual([started.length, threads.waiting], [2, 3]);
    assert.deepEqual(
      started.map(({ got }) => got.length),
      [1, 1],
    );
    thread(started, 1).answer();
    assert.deepEqual(await asked[1], { id: 2, kind: "grpc", answer: ANSWER });
    assert.equal(thread(started, 1).got.length, 1);
    thread(started, 0).answer();
    thread(started, 1).answer();
    await Promise.all(asked);
    assert.equal(threads.waiting, 0);
    for (const one of started) one.open();
    await threads[Symbol.asyncDispose]();
    assert.deepEqual(
      started.map(({ isEnded }) => isEnded),
      [true, true],
    );
  });

  test("a thread has more than one where that is allowed, and the idlest gets the next", async () => {
    const { threads, started } = begin({ threads: 2, maxUnderWay: 2 });
    const asked = [1, 2, 3, 4, 5].map(() => threads.ask(WORK));
    assert.deepEqual(
      started.map(({ got }) => got.length),
      [2, 2],
    );
    thread(started, 0).answer();
    assert.deepEqual(
      started.map(({ got }) => got.length),
      [2, 2],
    );
    thread(started, 1).emit("exit", 1);
    const kinds = (await Promise.all([asked[1], asked[3]])).map((outcome) => outcome?.kind);
    assert.deepEqual(kinds, ["fault", "fault"]);
    thread(started, 0).answer();
    thread(started, 0).answer();
    assert.equal((await asked[4])?.kind, "grpc");
    assert.equal(threads.waiting, 0);
  });

  test("attack: short work without end keeps a list that takes long waiting for half of the bound at most", async () => {
    const { threads, started, clock } = begin({ maxUnderWay: 2, maxWaiting: 1_000 });
    const short = [threads.ask(WORK), threads.ask(WORK)];
    const list = threads.ask(allApplications({ limit: 10_000n }));
    const one = thread(started, 0);
    let blocked = 0;
    while (!one.got.some((request) => request.kind === "work" && request.id === 3)) {
      assert.ok(blocked++ < 20, "the list has no turn");
      short.push(threads.ask(WORK));
      clock.advance(50);
      one.answer(1);
    }
    while (one.got.length > 0) one.answer(1);
    assert.equal((await list).kind, "grpc");
    await Promise.all(short);
  });

  test("attack: short work passes lists that take long, of which a thread has one at a time", async () => {
    const { threads, started } = begin({ maxUnderWay: 64, maxWaiting: 1_000 });
    const list = allApplications({ limit: 10_000n });
    const heavy = Array.from({ length: 70 }, () => threads.ask(list));
    const one = thread(started, 0);
    assert.equal(one.got.length, 1);
    assert.deepEqual(await Promise.all(heavy.slice(65)), Array(5).fill({ kind: "busy" }));
    const short = [threads.ask(WORK), threads.ask(allApplications({ limit: 100n, key: Uint8Array.of(1) }))];
    assert.deepEqual(
      one.got.map((request) => request.kind === "work" && request.id),
      [1, 71, 72],
    );
    one.answer(300);
    one.answer(1);
    one.answer(1);
    await Promise.all([heavy[0], ...short]);
    assert.deepEqual(
      one.got.map((request) => request.kind === "work" && request.id),
      [2],
    );
    // Work that turned out to be short is no longer kept back.
    for (let i = 0; i < 30; i++) one.answer(1);
    await Promise.all(heavy.slice(0, 31));
    const quick = [threads.ask(list), threads.ask(list)];
    assert.deepEqual(one.got.length, 3);
    while (one.got.length > 0) one.answer(1);
    await Promise.all([...heavy, ...quick]);
    assert.equal(threads.waiting, 0);
  });

  test("attack: one client fills all places of heavy work; others get theirs, and their turn", async () => {
    const { threads, started } = begin({ maxUnderWay: 64, maxWaiting: 1_000 });
    const list = allApplications({ limit: 10_000n });
    const flood = Array.from({ length: 65 }, () => threads.ask(list, { client: "192.0.2.1" }));
    const others = ["198.51.100.1", "198.51.100.1", undefined].map((client) => threads.ask(list, { client }));
    assert.deepEqual(await Promise.all(flood.slice(62)), Array(3).fill({ kind: "busy" }));
    assert.deepEqual(await threads.ask(list, { client: "192.0.2.1" }), { kind: "busy" }, "the total stays bounded");
    const one = thread(started, 0);
    const order: number[] = [];
    while (one.got.length > 0) {
      for (const request of one.got) if (request.kind === "work") order.push(request.id);
      one.answer(300);
    }
    assert.deepEqual(order.slice(0, 8), [1, 2, 66, 68, 3, 67, 4, 5]);
    assert.ok((await Promise.all(others)).every(({ kind }) => kind === "grpc"));
    assert.equal(threads.waiting, 0);
  });

  test("attack: one client's short work leaves room for that of others", async () => {
    const { threads, started } = begin({ maxWaiting: 10 });
    const flood = Array.from({ length: 10 }, () => threads.ask(WORK, { client: "192.0.2.1" }));
    const other = threads.ask(WORK, { client: "198.51.100.1" });
    assert.deepEqual(await flood[9], { kind: "busy" });
    const one = thread(started, 0);
    for (let i = 0; i < 3; i++) one.answer(1);
    assert.equal((await other).kind, "grpc");
    while (one.got.length > 0) one.answer(1);
    assert.equal((await Promise.all(flood)).filter(({ kind }) => kind === "grpc").length, 9);
  });

  test("too much work is refused at once, and what waited too long before its turn", async () => {
    const { threads, started, clock } = begin({ maxWaiting: 2 });
    const [first, second, third] = [threads.ask(WORK), threads.ask(WORK), threads.ask(WORK)];
    assert.deepEqual(await third, { kind: "busy" });
    clock.advance(1_001);
    thread(started, 0).answer();
    assert.equal((await first).kind, "grpc");
    assert.deepEqual(await second, { kind: "busy" });
    assert.equal(thread(started, 0).got.length, 0);
  });

  test("one that ends fails what it had, and another goes on; it gets what a fresh one needs", async () => {
    const { threads, started } = begin();
    const fresh: boolean[] = [];
    const ask = () =>
      threads.ask(WORK, {
        before(isFresh) {
          fresh.push(isFresh);
          return [];
        },
      });
    const [first, second, third] = [ask(), ask(), ask()];
    thread(started, 0).emit("error", new Error("out of memory"));
    thread(started, 0).emit("exit", 1);
    assert.equal((await first).kind, "fault");
    thread(started, 1).answer();
    thread(started, 1).answer();
    assert.deepEqual([(await second).kind, (await third).kind], ["grpc", "grpc"]);
    assert.deepEqual(fresh, [true, true, false]);
  });

  test("what is under way when it is closed is answered, and nothing is begun any more", async () => {
    const { threads, started } = begin();
    const asked = [threads.ask(WORK), threads.ask(WORK)];
    for (const one of started) one.open();
    await threads[Symbol.asyncDispose]();
    assert.deepEqual(await Promise.all(asked), [{ kind: "busy" }, { kind: "busy" }]);
    thread(started, 0).emit("exit", 1);
    assert.deepEqual(await threads.ask(WORK), { kind: "busy" });
    assert.equal(started.length, 1);
  });

  test("attack: a thread is not ended while it opens the store, whose write lock it would keep", async () => {
    const { threads, started } = begin({ threads: 2 });
    assert.equal(started.length, 0, "none is started before it has work");
    threads.warm();
    thread(started, 0).open();
    const closed = threads[Symbol.asyncDispose]();
    await new Promise(setImmediate);
    assert.deepEqual(
      started.map(({ isEnded }) => isEnded),
      [true, false],
    );
    thread(started, 1).open();
    await closed;
    assert.equal(thread(started, 1).isEnded, true);
  });

  test("one that ended before its store was open holds up nothing", async () => {
    const { threads, started } = begin();
    threads.warm();
    const closed = threads[Symbol.asyncDispose]();
    thread(started, 0).emit("exit");
    await closed;
  });
});

suite("reads with a deadline", () => {
  test("end at the first read that is late, a walk in its middle", () => {
    let nowMs = 0;
    const state = new Overlay({ get: () => undefined, range: () => [] });
    for (let n = 0; n < 5; n++) state.set(Uint8Array.of(1, n), Uint8Array.of(n));
    const deadline = new Deadline({ maxRunMs: 3 }, { nowMs: () => nowMs });
    const timed = new TimedReads(state, deadline);
    assert.deepEqual(timed.get(Uint8Array.of(1, 2)), Uint8Array.of(2));
    const seen: number[] = [];
    assert.throws(() => {
      for (const [, value] of timed.range({ prefix: Uint8Array.of(1) })) {
        seen.push(value[0] ?? -1);
        nowMs++;
      }
    }, /deadline/);
    assert.deepEqual([seen, deadline.passed], [[0, 1, 2], true]);
    assert.throws(() => timed.get(Uint8Array.of(1, 2)), /deadline/);
  });
});
