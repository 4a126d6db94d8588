package server

import (
	"weir/api/admin"
	"weir/api/predict"
)

// rpcStreams bounds the calls at once of one connection.
const rpcStreams = 1024

// newRPC makes the gRPC server of the classical models, over TLS as the API is.
func (s *Server) newRPC(f files) {
	c := predict.GRPCConfig{IdleTimeout: s.config.HTTP.IdleTimeout, HandshakeTime: s.config.HTTP.ReadTimeout, MaxStreams: rpcStreams}
	if s.tls != nil {
		c.TLS = s.tls.ConfigFor("h2")
	}
	s.rpcListener = admin.Limit(s.rpcListener, f.rpc)
	s.rpc = predict.NewGRPC(s.predict, c)
}
