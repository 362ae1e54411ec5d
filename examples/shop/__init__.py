"""A shop: an API with FastAPI, a database with SQLAlchemy, and tasks. Run in `examples`:

    export DATABASE_URL=sqlite:///shop.sqlite3 ACKLINE_STORE=sqlite:///jobs.db
    uvicorn shop.api:api
    ackline worker shop.tasks:app
    curl localhost:8000/orders --json '{"email": "ann@example.com", "items": 2}'

With both in one PostgreSQL database, an order and its jobs are one commit:

    export DATABASE_URL=postgresql+psycopg:///shop ACKLINE_STORE=postgresql:///shop
"""
