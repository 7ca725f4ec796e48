import { join } from "node:path";
import { LineProcess } from "./line-process.ts";

const CHILD = join(import.meta.dirname, "supplier-child.ts");

/** Where a supplier is killed by itself. */
export interface KillPlan {
  readonly point: string;
  /** How often the point is reached before. */
  readonly times: number;
}

/** A supplier in a process of its own, and what it said. */
export class SupplierProcess extends LineProcess {
  constructor(rpcUrl: string, folder: string, plan?: KillPlan) {
    super(CHILD, [rpcUrl, folder, plan?.point ?? "", String(plan?.times ?? 1)]);
  }

  /** Lets it serve relays; false when it was killed meanwhile. */
  async serve(first: number, count: number): Promise<boolean> {
    this.write(`serve ${first} ${count}`);
    return await this.said((line) => line === "served");
  }

  /** Waits until it has worked after a block; false when it was killed before. */
  processed(heightBlocks: bigint): Promise<boolean> {
    return this.said((line) => {
      const [what, height] = line.split(" ");
      return what === "processed" && BigInt(height ?? 0) >= heightBlocks;
    });
  }
}
