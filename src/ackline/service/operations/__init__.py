"""Operations on many jobs or a whole queue: bulk, rename, import, export, idempotent enqueues."""
