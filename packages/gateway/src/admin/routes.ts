import type { ErrorCode, ServiceId } from "@turnpike/base";
import type { RelayFlag } from "@turnpike/relay";
import type { AdminTarget } from "./types.ts";

/** One request of an operator. */
interface AdminRequest {
  /** Decoded segments of the path that stand in a route's place holders. */
  readonly args: readonly string[];
  readonly query: URLSearchParams;
  /** Parsed JSON; undefined without a body. */
  readonly body: unknown;
}

/** An answer of the admin API. */
export type AdminAnswer =
  | { readonly status: 200; readonly value: unknown; readonly done?: string }
  | {
      readonly status: "error";
      readonly code: ErrorCode;
      readonly message?: string;
      readonly faults?: readonly string[];
    };

/** One route: segments, where `*` takes any one. */
export interface AdminRoute {
  readonly verb: "GET" | "POST" | "PUT";
  readonly path: readonly string[];
  /** `done` of its answer says what was changed, for the log. */
  handle(request: AdminRequest): AdminAnswer | Promise<AdminAnswer>;
}

const ok = (value: unknown): AdminAnswer => ({ status: 200, value });
const changed = (done: string, value: unknown): AdminAnswer => ({ status: 200, value, done });
const refused = (code: ErrorCode, message?: string): AdminAnswer => ({
  status: "error",
  code,
  ...(message === undefined ? {} : { message }),
});

/** The routes of the admin API. `start` is what `GET /version` says. */
export function adminRoutes(target: AdminTarget, start: { readonly version: string }): readonly AdminRoute[] {
  const { control } = target;
  const noService = (id: string): AdminAnswer => refused("ADMIN_NOT_FOUND", `No service ${id} has suppliers.`);

  const onOperator = (
    what: string,
    act: (id: ServiceId, operator: string) => boolean,
    value: Readonly<Record<string, unknown>>,
  ): AdminRoute => ({
    verb: "POST",
    path: ["services", "*", "suppliers", "*", what],
    handle({ args: [id = "", operator = ""] }) {
      if (control().inspect(id as ServiceId).length === 0) return noService(id);
      if (!act(id as ServiceId, operator)) {
        return refused("ADMIN_NOT_FOUND", `Service ${id} has no operator ${operator}.`);
      }
      return changed(`${what} ${operator} of ${id}`, { service: id, operator, ...value });
    },
  });

  const resetScore = onOperator("reset-score", (id, operator) => control().resetScore(id, operator), {});

  return [
    { verb: "GET", path: ["version"], handle: () => ok(start) },
    { verb: "GET", path: ["config"], handle: () => ok(target.config()) },
    { verb: "GET", path: ["services"], handle: () => ok({ services: control().inspect() }) },
    {
      verb: "GET",
      path: ["services", "*"],
      handle({ args: [id = ""] }) {
        const [view] = control().inspect(id as ServiceId);
        return view === undefined ? noService(id) : ok(view);
      },
    },
    onOperator("drain", (id, operator) => control().setDrained(id, operator, true), { isDrained: true }),
    onOperator("undrain", (id, operator) => control().setDrained(id, operator, false), { isDrained: false }),
    resetScore,
    // Its name in the version before.
    { ...resetScore, path: resetScore.path.with(-1, "forgive") },
    { verb: "GET", path: ["flags"], handle: () => ok({ flags: control().flags() }) },
    {
      verb: "PUT",
      path: ["flags", "*"],
      handle({ args: [name = ""], body }) {
        const flags = control().flags();
        if (!Object.hasOwn(flags, name)) {
          return refused("ADMIN_NOT_FOUND", `No flag ${name}; there are ${Object.keys(flags).join(", ")}.`);
        }
        const isOn = typeof body === "object" && body !== null && "on" in body ? body.on : undefined;
        if (typeof isOn !== "boolean") return refused("VALIDATION_FAILED", 'Send {"on": true} or {"on": false}.');
        control().setFlag(name as RelayFlag, isOn);
        return changed(`flag ${name} ${isOn ? "on" : "off"}`, { flags: control().flags() });
      },
    },
    {
      verb: "POST",
      path: ["cache", "clear"],
      handle({ query }) {
        const id = query.get("service");
        if (id !== null && control().inspect(id as ServiceId).length === 0) return noService(id);
        if (id === null) control().clearCache();
        else control().clearCache(id as ServiceId);
        return changed(`clear the cache of ${id ?? "all services"}`, { cleared: id ?? "all" });
      },
    },
    {
      verb: "POST",
      path: ["reload"],
      async handle() {
        const result = await target.reload();
        if (result.kind === "refused") return { status: "error", code: "RELOAD_REFUSED", faults: result.faults };
        return changed("reload", result.kind === "reloaded" ? { changed: result.changed } : { changed: [] });
      },
    },
  ];
}
