-- What is there from the start. Whatever is there already stays as it is.

insert into networks (network_id) values ('pocket'), ('pocket-beta'), ('pocket-alpha') on conflict do nothing;

insert into portal_plans (
  portal_plan_type, portal_plan_type_description, plan_usage_limit, plan_usage_limit_interval, plan_rate_limit_rps,
  plan_application_limit
) values
  ('FREE', 'For trying it out.', 1000000, 'month', 100, 1000),
  ('UNLIMITED', 'Without limits.', null, null, null, null)
on conflict do nothing;

insert into organizations (organization_name)
select n.name from (values ('Pocket Network'), ('Web3 Builders Co')) n (name)
where not exists (select from organizations o where o.organization_name = n.name);

insert into portal_accounts (
  portal_account_id, organization_id, portal_plan_type, user_account_name, internal_account_name
)
select '10000000-0000-0000-0000-000000000004', min(o.organization_id), 'FREE', 'web3-builders', 'Web3 Builders'
from organizations o where o.organization_name = 'Web3 Builders Co'
on conflict do nothing;

-- Those who hear of it read the catalogue anew.
select pg_notify('portal_reload', '');
