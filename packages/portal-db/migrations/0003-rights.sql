-- What the roles of the API may do: rights on tables and columns here, on rows below.
-- The roles themselves belong to the whole cluster and are made before any migration.

revoke all on schema portal, portal_private from public;
revoke all on all tables in schema portal, portal_private from public;
revoke all on all functions in schema portal, portal_private from public;
revoke all on all sequences in schema portal, portal_private from public;

-- The role of no request reads which tokens were taken back, and which migrations were applied.
grant usage on schema portal_private to portal_authenticator;
grant select on portal_private.revoked_tokens, portal_private.migrations to portal_authenticator;

grant usage on schema portal to portal_reader, portal_admin;

grant select on
  networks, organizations, portal_plans, portal_accounts, portal_account_rbac, portal_application_rbac,
  portal_application_usage
to portal_reader, portal_admin;
grant select on portal_users to portal_admin;
-- All columns but secret_key_hash.
grant select (
  portal_application_id, portal_account_id, portal_application_name, emoji, portal_application_user_limit,
  portal_application_user_limit_interval, portal_application_user_limit_rps,
  portal_application_user_limit_notification_thresholds, portal_application_description, favorite_service_ids,
  secret_key_required, has_secret, deleted_at, created_at, updated_at
) on portal_applications to portal_reader, portal_admin;

-- Primary keys may be given but not changed; times are the database's.
grant
  insert (organization_id, organization_name, deleted_at),
  update (organization_name, deleted_at),
  delete
on organizations to portal_admin;
grant
  insert (
    portal_account_id, organization_id, portal_plan_type, user_account_name, internal_account_name,
    portal_account_user_limit, portal_account_user_limit_interval, portal_account_user_limit_rps,
    portal_account_user_limit_notification_thresholds, billing_type, stripe_subscription_id, gcp_account_id,
    gcp_entitlement_id, deleted_at
  ),
  update (
    organization_id, portal_plan_type, user_account_name, internal_account_name,
    portal_account_user_limit, portal_account_user_limit_interval, portal_account_user_limit_rps,
    portal_account_user_limit_notification_thresholds, billing_type, stripe_subscription_id, gcp_account_id,
    gcp_entitlement_id, deleted_at
  ),
  delete
on portal_accounts to portal_admin;
grant
  insert (
    portal_application_id, portal_account_id, portal_application_name, emoji, portal_application_user_limit,
    portal_application_user_limit_interval, portal_application_user_limit_rps,
    portal_application_user_limit_notification_thresholds, portal_application_description, favorite_service_ids,
    secret_key_hash, secret_key_required, deleted_at
  ),
  update (
    portal_account_id, portal_application_name, emoji, portal_application_user_limit,
    portal_application_user_limit_interval, portal_application_user_limit_rps,
    portal_application_user_limit_notification_thresholds, portal_application_description, favorite_service_ids,
    secret_key_hash, secret_key_required, deleted_at
  ),
  delete
on portal_applications to portal_admin;
grant
  insert (portal_user_id, portal_user_email, signed_up, portal_admin, deleted_at),
  update (portal_user_email, signed_up, portal_admin, deleted_at),
  delete
on portal_users to portal_admin;
grant
  insert (id, portal_account_id, portal_user_id, role_name, user_joined_account),
  update (role_name, user_joined_account),
  delete
on portal_account_rbac to portal_admin;
grant
  insert (id, portal_application_id, portal_user_id),
  update (portal_application_id, portal_user_id),
  delete
on portal_application_rbac to portal_admin;

-- The gateway compares keys and writes usage. No token leads to this role.
grant usage on schema portal, portal_private to portal_gateway;
grant select on portal_plans, portal_accounts, portal_applications, portal_application_usage to portal_gateway;
grant insert, update on portal_application_usage to portal_gateway;
grant select on portal_private.account_usage to portal_gateway;

-- Rows. Row security is forced: without a policy the owner sees nothing either.
-- A caller is bound to an account when the claims of its token name one. A connection without claims reaches no row:
-- settings that were never made must not read as those of a token that is bound to none.
-- Every setting is read in a sub-select, which is run once a statement and not once a row.

do $$
declare
  name text;
begin
  foreach name in array array[
    'networks', 'organizations', 'portal_plans', 'portal_accounts', 'portal_applications', 'portal_users',
    'portal_account_rbac', 'portal_application_rbac', 'portal_application_usage'
  ] loop
    execute format('alter table portal.%I enable row level security', name);
    execute format('alter table portal.%I force row level security', name);
    execute format('create policy owner on portal.%I to current_user using (true) with check (true)', name);
  end loop;
end
$$;

create function pg_temp.bound() returns text language sql return
  $e$(select nullif(current_setting('request.jwt.claims', true), '')::json ->> 'account_id')$e$;
create function pg_temp.unbound() returns text language sql return
  $e$(select nullif(current_setting('request.jwt.claims', true), '') is not null
      and nullif(current_setting('request.jwt.claims', true), '')::json ->> 'account_id' is null)$e$;
create function pg_temp.live() returns text language sql return
  $e$(deleted_at is null or (select current_setting('request.deleted', true) = 'shown'))$e$;

-- Words that start with @ stand for the expressions above.
create function pg_temp.policy(
  name text, target text, command text, roles text, using_rows text, check_rows text
) returns void language plpgsql as $$
declare
  filled text[] := array[using_rows, check_rows];
begin
  for i in 1 .. 2 loop
    filled[i] := replace(replace(replace(filled[i],
      '@unbound', pg_temp.unbound()), '@bound', pg_temp.bound()), '@live', pg_temp.live());
  end loop;
  execute format('create policy %I on portal.%I for %s to %s', name, target, command, roles)
    || coalesce(' using (' || filled[1] || ')', '') || coalesce(' with check (' || filled[2] || ')', '');
end
$$;

do $$
declare
  all_readers constant text := 'portal_reader, portal_admin';
  admin constant text := 'portal_admin';
  own constant text := '(@unbound or portal_account_id = @bound)';
  own_application constant text :=
    'portal_application_id in (select a.portal_application_id from portal.portal_applications a)';
  member constant text := 'portal_user_id in (select m.portal_user_id from portal.portal_account_rbac m)';
begin
  perform pg_temp.policy('read', 'networks', 'select', all_readers, '@unbound or @bound is not null', null);
  perform pg_temp.policy('read', 'portal_plans', 'select', all_readers, '@unbound or @bound is not null', null);

  -- An organization may own several accounts, so a token of one of them reads it and no more.
  perform pg_temp.policy('read', 'organizations', 'select', all_readers,
    '@live and (@unbound or organization_id in (select a.organization_id from portal.portal_accounts a))', null);
  perform pg_temp.policy('add', 'organizations', 'insert', admin, null, '@unbound');
  perform pg_temp.policy('change', 'organizations', 'update', admin, '@live and @unbound', '@unbound');
  perform pg_temp.policy('remove', 'organizations', 'delete', admin, '@live and @unbound', null);

  perform pg_temp.policy('read', 'portal_accounts', 'select', all_readers, '@live and ' || own, null);
  perform pg_temp.policy('add', 'portal_accounts', 'insert', admin, null, '@unbound');
  perform pg_temp.policy('change', 'portal_accounts', 'update', admin, '@live and ' || own, own);
  perform pg_temp.policy('remove', 'portal_accounts', 'delete', admin, '@live and @unbound', null);

  perform pg_temp.policy('read', 'portal_applications', 'select', all_readers, '@live and ' || own, null);
  perform pg_temp.policy('add', 'portal_applications', 'insert', admin, null, own);
  perform pg_temp.policy('change', 'portal_applications', 'update', admin, '@live and ' || own, own);
  perform pg_temp.policy('remove', 'portal_applications', 'delete', admin, '@live and ' || own, null);

  -- Users are shared by accounts: a token of one account reads its members and writes none. Nor may it make anybody a
  -- member, which would show it that user's address.
  perform pg_temp.policy('read', 'portal_users', 'select', admin, '@live and (@unbound or ' || member || ')', null);
  perform pg_temp.policy('add', 'portal_users', 'insert', admin, null, '@unbound');
  perform pg_temp.policy('change', 'portal_users', 'update', admin, '@live and @unbound', '@unbound');
  perform pg_temp.policy('remove', 'portal_users', 'delete', admin, '@live and @unbound', null);

  perform pg_temp.policy('read', 'portal_account_rbac', 'select', all_readers, own, null);
  perform pg_temp.policy('add', 'portal_account_rbac', 'insert', admin, null, '@unbound');
  perform pg_temp.policy('change', 'portal_account_rbac', 'update', admin, own, own);
  perform pg_temp.policy('remove', 'portal_account_rbac', 'delete', admin, own, null);

  perform pg_temp.policy('read', 'portal_application_rbac', 'select', all_readers,
    '@unbound or ' || own_application, null);
  perform pg_temp.policy('add', 'portal_application_rbac', 'insert', admin,
    null, '@unbound or (' || own_application || ' and ' || member || ')');
  perform pg_temp.policy('change', 'portal_application_rbac', 'update', admin,
    '@unbound or ' || own_application, '@unbound or (' || own_application || ' and ' || member || ')');
  perform pg_temp.policy('remove', 'portal_application_rbac', 'delete', admin,
    '@unbound or ' || own_application, null);

  perform pg_temp.policy('read', 'portal_application_usage', 'select', all_readers,
    '@unbound or ' || own_application, null);
end
$$;

do $$
declare
  name text;
begin
  foreach name in array array['portal_plans', 'portal_accounts', 'portal_applications'] loop
    execute format('create policy gateway on portal.%I for select to portal_gateway using (true)', name);
  end loop;
end
$$;
create policy gateway on portal_application_usage to portal_gateway using (true) with check (true);

drop function pg_temp.policy(text, text, text, text, text, text), pg_temp.bound(), pg_temp.unbound(), pg_temp.live();
