import ackline

queue = ackline.open("sqlite:///jobs.db")["email"]


@queue.handler("welcome", max_attempts=5, backoff=[1, 5, 30])
def welcome(job):
    return f"sent to {job.payload['to']}"


if __name__ == "__main__":
    queue.enqueue({"to": "ann@example.com"}, id="email-1", kind="welcome")
    ackline.Worker(queue).run()  # Ctrl-C or SIGTERM drains
