// Package oip is the service of the Open Inference Protocol over gRPC and its messages,
// generated from inference.proto by `make generate`.
//
// A client asks any server of the protocol:
//
//	conn, err := grpc.NewClient("127.0.0.1:8001", grpc.WithTransportCredentials(insecure.NewCredentials()))
//	…
//	client := oip.NewGRPCInferenceServiceClient(conn)
//	answer, err := client.ModelReady(ctx, &oip.ModelReadyRequest{Name: "iris"})
package oip
