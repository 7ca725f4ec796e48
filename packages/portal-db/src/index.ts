export type { Caller, Plan, PlanResult, RoleView, Statement, TableRequest, TableView } from "./types.ts";
