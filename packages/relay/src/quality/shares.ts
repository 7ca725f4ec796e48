/** Who offers an endpoint, and how good it is. */
export interface Weighted {
  readonly operator: string;
  /** Above 0. */
  readonly weight: number;
  /** It could take the calls that another must not have. */
  readonly isHealthy: boolean;
}

interface OperatorShare {
  /** That of its best endpoint: a longer list of them is no better. */
  weight: number;
  /** Sum over its endpoints. */
  sum: number;
  isHealthy: boolean;
  share: number;
}

/**
 * Shares of the first attempts, by endpoint; they sum to 1. An operator's share follows the weight of its best endpoint,
 * and its endpoints divide it by theirs. No operator has more than `cap` while more than 1/cap healthy ones are there:
 * with fewer no operator could take the rest. What is above the cap goes to the others by weight, until none is above.
 */
export function sharesOf(endpoints: readonly Weighted[], cap: number): number[] {
  const operators = new Map<string, OperatorShare>();
  for (const { operator, weight, isHealthy } of endpoints) {
    const known = operators.get(operator);
    if (known === undefined) operators.set(operator, { weight, sum: weight, isHealthy, share: 0 });
    else {
      known.weight = Math.max(known.weight, weight);
      known.sum += weight;
      known.isHealthy ||= isHealthy;
    }
  }
  const all = [...operators.values()];
  const healthy = all.reduce((count, { isHealthy }) => count + (isHealthy ? 1 : 0), 0);
  fill(all, healthy * cap > 1 ? cap : 1);
  return endpoints.map(({ operator, weight }) => {
    const { share, sum } = operators.get(operator) ?? { share: 0, sum: 1 };
    return (share * weight) / sum;
  });
}

function fill(operators: readonly OperatorShare[], cap: number): void {
  let left = 1;
  let free = [...operators];
  for (;;) {
    const total = free.reduce((sum, { weight }) => sum + weight, 0);
    const level = left / total;
    const over = free.filter(({ weight }) => weight * level > cap);
    if (over.length === 0) {
      for (const operator of free) operator.share = operator.weight * level;
      return;
    }
    for (const operator of over) operator.share = cap;
    left -= cap * over.length;
    free = free.filter((operator) => !over.includes(operator));
    if (free.length === 0) return;
  }
}
