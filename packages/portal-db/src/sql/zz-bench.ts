import { planRequest } from "/work/main/packages/portal-db/src/sql/plan-request.ts";
import { FILMS_VIEW, requestOf } from "/work/main/packages/portal-db/src/sql/test-database.ts";
for (const r of [{table:"people",query:"select=*&name=eq.x&limit=10"},{table:"studios",query:"select=name,films!inner(title,people!director_id(name))&films.title=eq.x&order=name&limit=3"},{verb:"POST" as const,table:"people",body:{name:"x"},prefer:{return:"representation" as const}},{table:"nope"}]) {
  const q=requestOf(r); for(let i=0;i<5000;i++) planRequest(q,FILMS_VIEW,{maxRows:10});
  const t=performance.now(); for(let i=0;i<20000;i++) planRequest(q,FILMS_VIEW,{maxRows:10}); console.log(r.table, r.query, ((performance.now()-t)/20000*1000).toFixed(1),"us");
}
const q=requestOf({table:"studios",query:"select=name,films!inner(title,...people!director_id(who:name))&films.title=eq.x&order=name&limit=3"}); const p=planRequest(q,FILMS_VIEW,{maxRows:10}); if(p.ok) console.log(p.plan.main);
