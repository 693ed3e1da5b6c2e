"""gRPC: servicers that translate, one error table, and the codec where protobuf stops."""
