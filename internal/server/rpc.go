package server

import (
	"weir/api/admin"
	"weir/api/predict"
)

// rpcStreams bounds the calls at once of one connection.
const rpcStreams = 1024

// newRPC makes the gRPC server of the classical models, over TLS as the API is.
func newRPC(s *Server, f files) *predict.GRPC {
	c := predict.GRPCConfig{IdleTimeout: s.config.HTTP.IdleTimeout, HandshakeTime: s.config.HTTP.ReadTimeout, MaxStreams: rpcStreams}
	if s.ports.tls != nil {
		c.TLS = s.ports.tls.ConfigFor("h2")
	}
	s.ports.rpc = admin.Limit(s.ports.rpc, f.rpc)
	return predict.NewGRPC(s.predict, c)
}
