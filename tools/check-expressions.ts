import { schemaExpressions } from "./expressions/constructed.ts";
import { EXCEPTIONS, OTHER_CONSTRUCTORS } from "./expressions/exceptions.ts";
import { lintExpressions } from "./expressions/lint.ts";

// Foreign text decides how long an expression runs: each one of the product is linear in it, or a named exception.
// `--all` checks again what tools/expressions/linear.json lists.

const { faults, count } = await lintExpressions({
  exceptions: EXCEPTIONS,
  otherConstructors: OTHER_CONSTRUCTORS,
  more: schemaExpressions,
  all: process.argv.includes("--all"),
  write: process.env.CI === undefined,
});
for (const fault of faults) process.stderr.write(`${fault}\n`);
if (faults.length === 0) process.stdout.write(`${count} regular expressions are linear or named exceptions\n`);
// The checker's own process would keep this one.
process.exit(faults.length === 0 ? 0 : 1);
