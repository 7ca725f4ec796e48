# A seller that nothing of ours is in: pip x402's middleware for FastAPI. Prints its port.
import socket
import sys

import uvicorn
from fastapi import FastAPI
from x402.http import FacilitatorConfig, HTTPFacilitatorClient, PaymentOption
from x402.http.middleware.fastapi import PaymentMiddlewareASGI
from x402.http.types import RouteConfig
from x402.mechanisms.evm.exact import ExactEvmServerScheme
from x402.schemas import AssetAmount
from x402.server import x402ResourceServer

facilitator_url, network, asset, amount, pay_to = sys.argv[1:]
server = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=facilitator_url)))
server.register(network, ExactEvmServerScheme())
price = AssetAmount(amount=amount, asset=asset, extra={"name": "USDC", "version": "2"})
option = PaymentOption(scheme="exact", network=network, price=price, pay_to=pay_to, max_timeout_seconds=600)
app = FastAPI()
app.add_middleware(
    PaymentMiddlewareASGI,
    routes={"GET /thing": RouteConfig(accepts=[option], mime_type="application/json", description="A thing")},
    server=server,
)


@app.get("/thing")
async def thing() -> dict[str, bool]:
    return {"thing": True}


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(128)
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
