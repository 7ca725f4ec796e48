-- The gateway finds applications by their keys. Not unique: that a hash is taken would tell one account of another's key.
create index portal_applications_key on portal_applications (secret_key_hash) where deleted_at is null;
