"""Starts llama.cpp's server. Arguments: path of the model, port, size of the context window in tokens, threads."""

import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port, params.n_ctx, threads = map(int, sys.argv[2:])
params.n_parallel = 1
params.use_jinja = True
params.cpuparams.n_threads = threads
params.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(params)
signal.pause()
