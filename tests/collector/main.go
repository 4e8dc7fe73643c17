// Receives spans over OTLP (gRPC) with the OpenTelemetry Collector's receiver, and writes each batch to standard output as
// one line of OTLP JSON. Arguments: a Unix socket and a host. The first line of output is the address on that host with the
// chosen port. Exits when standard input ends. --discard writes no batches, so that benchmarks do not measure JSON.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func receive(address confignet.AddrConfig, lines chan<- []byte) error {
	sink, err := consumer.NewTraces(func(_ context.Context, traces ptrace.Traces) error {
		if lines == nil {
			return nil
		}
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err == nil {
			lines <- line
		}
		return err
	})
	if err != nil {
		return err
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.GRPC = configoptional.Some(configgrpc.ServerConfig{NetAddr: address})
	settings := receiver.Settings{
		ID:                component.NewIDWithName(factory.Type(), string(address.Transport)),
		TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}
	otlp, err := factory.CreateTraces(context.Background(), settings, config, sink)
	if err != nil {
		return err
	}
	return otlp.Start(context.Background(), componenttest.NewNopHost())
}

// The receiver does not report a port that the kernel chose.
func free(host string) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func run(socket, host string, discard bool) error {
	var lines chan []byte
	if !discard {
		lines = make(chan []byte)
	}
	address, err := free(host)
	if err != nil {
		return err
	}
	for _, config := range []confignet.AddrConfig{
		{Endpoint: socket, Transport: confignet.TransportTypeUnix},
		{Endpoint: address, Transport: confignet.TransportTypeTCP},
	} {
		if err := receive(config, lines); err != nil {
			return err
		}
	}
	fmt.Println(address)
	go func() {
		for line := range lines {
			os.Stdout.Write(append(line, '\n'))
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func main() {
	discard := len(os.Args) == 4 && os.Args[3] == "--discard"
	if len(os.Args) != 3 && !discard {
		fmt.Fprintln(os.Stderr, "usage: otlp-collector SOCKET HOST [--discard]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], discard); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
