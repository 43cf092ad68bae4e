<?php
// Publishes until it is told to end, through one address after the other, and prints what was confirmed.

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

require 'PhpAmqpLib/autoload.php';

$urls = array_slice($argv, 1);
for ($number = 0;;) {
    try {
        $urls[] = array_shift($urls);
        $url = parse_url($urls[0]);
        $vhost = urldecode(substr($url['path'] ?? '', 1)) ?: '/';
        $connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], $vhost);
        $channel = $connection->channel();
        $channel->exchange_declare('orders', 'x-delayed-message', false, true, false, false, false, new AMQPTable([
            'x-delayed-type' => 'topic',
        ]));
        $channel->confirm_select();
        $channel->set_nack_handler(fn () => throw new RuntimeException('refused'));
        while (true) {
            $delay = random_int(200, 4000);
            $body = sprintf('php %d %d %d', ++$number, (int) (microtime(true) * 1000), $delay);
            $channel->basic_publish(new AMQPMessage($body, [
                'application_headers' => new AMQPTable(['x-delay' => $delay]), 'delivery_mode' => 2,
            ]), 'orders', 'faults');
            $channel->wait_for_pending_acks(60);
            echo "$body\n";
            usleep(10_000);
        }
    } catch (Throwable $e) {
        fwrite(STDERR, get_class($e).': '.$e->getMessage()."\n");
        usleep(100_000);
    }
}
