import {
  type ClientIpOf,
  type Clock,
  clientKey,
  type ErrorCode,
  type Log,
  type MaybePromise,
  type Metrics,
} from "@turnpike/base";
import { codeAnswer } from "../free/answers.ts";
import { inFlight, limitedTotal, requestSeconds, requestsTotal } from "../metrics.ts";
import type { Watch } from "../monitoring/watch.ts";
import { faultFields } from "../pipeline.ts";
import { type Answer, errorAnswer, writeAnswer } from "./answer.ts";
import { canDiscard, type Desk, type Door, type Exchange, type Slot } from "./request.ts";
import type { Streamed } from "./stream-body.ts";
import type { Unsent } from "./unsent.ts";
import type { Works } from "./works.ts";

/** Requests with work in progress at each door, over all configurations. */
export type Working = Record<Door, number>;

/** What {@link createDesk} works with. */
export interface DeskModules {
  /** Most requests with work in progress at each door. */
  readonly maxConcurrentRequests: () => number;
  readonly working: Working;
  /** Bytes of large answers that are written and not sent yet. */
  readonly unsent: Unsent;
  readonly clientIp: ClientIpOf;
  /** Work that has not ended. */
  readonly works: Works;
  readonly isDraining: () => boolean;
  readonly watch: Watch;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Smaller answers are not counted: a client that reads nothing has few of them. */
const LARGE_BYTES = 65_536;

/** The desk that the doors of one configuration answer over. */
export function createDesk(modules: DeskModules): Desk {
  const { working, unsent, clientIp, works, isDraining, watch, clock, log, metrics } = modules;

  const record = (exchange: Exchange, door: Door, service: string, status: number, result: string): void => {
    metrics.count(requestsTotal, { door, service, status: String(status), result });
    metrics.observe(requestSeconds, (clock.monotonicMs() - exchange.startMs) / 1_000, { door, result });
  };

  /**
   * False when there is no room for an answer that its client may not read. What was just paid for is delivered; a copy of
   * it costs nothing, so it has to find room.
   */
  const hasRoom = ({ req, res }: Exchange, door: Door, { body, isStored }: Answer): boolean =>
    body.length < LARGE_BYTES ||
    res.headersSent ||
    req.method === "HEAD" ||
    unsent.hold(res, body.length, clientKey(clientIp(req)), door === "paid" && isStored !== true);

  /** Gives a promise for a body that is still on its way. */
  const respond = (exchange: Exchange, door: Door, service: string, made: Answer): Promise<void> | undefined => {
    const { req, res } = exchange;
    let answer = made;
    if (!hasRoom(exchange, door, made)) {
      metrics.count(limitedTotal, { limit: "unread" });
      answer = doorError(exchange, door, "OVERLOADED");
    }
    const { status, result, body } = answer;
    const close = answer.close === true || isDraining() || (!req.complete && !canDiscard(req));
    const rest = writeAnswer(res, close ? { ...answer, close } : answer, exchange.requestId, req.method === "HEAD");
    const ended = ({ bytes, broken }: Streamed): void => {
      record(exchange, door, service, status, broken ?? result);
      watch.ended(exchange, door, service, { status, result: broken ?? result, bytes });
    };
    if (rest !== undefined) return rest.then(ended);
    ended({ bytes: body.length, broken: undefined });
    return undefined;
  };

  const desk: Desk = {
    answer(exchange, door, service, answer) {
      void respond(exchange, door, service, answer);
    },
    told: (exchange, door, service, ending) => watch.ended(exchange, door, service, ending),
    work(exchange, door, service, work) {
      const isFull = (): boolean => working[door] >= modules.maxConcurrentRequests();
      const shed = isDraining() ? "SHUTTING_DOWN" : isFull() ? "OVERLOADED" : undefined;
      if (shed !== undefined && door !== "monitoring") {
        desk.answer(exchange, door, service, doorError(exchange, door, shed));
        return;
      }
      working[door]++;
      let isInside = true;
      const leave = (): void => {
        if (isInside) working[door]--;
        isInside = false;
      };
      const slot: Slot = {
        leave,
        enter() {
          if (isFull()) return false;
          working[door]++;
          isInside = true;
          return true;
        },
      };
      const end = (): void => {
        leave();
        works.end();
      };
      const failed = (error: unknown): void => {
        try {
          log.error({ ...faultFields(error), requestId: exchange.requestId, door, service }, "a request failed");
          desk.answer(exchange, door, service, doorError(exchange, door, "INTERNAL"));
        } finally {
          end();
        }
      };
      const finish = (answer: Answer | undefined): void => {
        let rest: Promise<void> | undefined;
        try {
          if (answer === undefined) {
            record(exchange, door, service, 499, "gone");
            watch.ended(exchange, door, service, { status: 499, result: "gone", bytes: 0 });
          } else rest = respond(exchange, door, service, answer);
        } catch (error) {
          failed(error);
          return;
        }
        if (rest === undefined) {
          end();
          return;
        }
        // A client that reads slowly holds no slot, but its supplier is still needed.
        leave();
        rest.then(end, failed);
      };
      works.begin();
      let answer: MaybePromise<Answer | undefined>;
      try {
        answer = work(slot);
      } catch (error) {
        failed(error);
        return;
      }
      if (answer instanceof Promise) answer.then(finish, failed);
      else finish(answer);
    },
  };
  return desk;
}

/** Tells how many requests are worked on. */
export function tellWorking(working: Working, metrics: Metrics): void {
  for (const [door, count] of Object.entries(working)) metrics.set(inFlight, count, { door });
}

/** An error in the door's own form, with which its connection ends. At the free door the call's id is not known. */
export function doorError({ requestId }: Exchange, door: Door, code: ErrorCode): Answer {
  return door === "free" ? codeAnswer("null", code, { close: true }) : errorAnswer(code, requestId, { close: true });
}
