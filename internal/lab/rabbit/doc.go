// Package rabbit starts or finds a real RabbitMQ for tests and benchmarks. The library does not
// import it.
//
// # Which broker
//
// The first of these that exists:
//
//   - the broker at AMQP_URL. Set but dead is an error, never a reason to take another one;
//   - a container of the image DELAYER_RABBITMQ_IMAGE (rabbitmq:4.0 by default), where a Docker
//     engine answers and has the image or can pull it;
//   - a private node of the rabbitmq-server on this machine, with its own ports, node name and
//     folder.
//
// DELAYER_BROKER=given, docker or node forces one of them; none starts nothing, for tests that need
// no broker.
//
// # What is left behind
//
// Nothing, even if the process that called [Start] is killed with SIGKILL. A container and a
// private node each run under a small shell script that reads its standard input, the lifeline.
// This process holds the other end. When this process ends, the lifeline ends, and the script ends
// the broker and removes its epmd and folder, or its container.
package rabbit
