// Peer: Boost.Fiber, one kernel thread, its default round-robin scheduler. Same protocol as every
// peer (../c/common.h). It has no sockets, so no echo and no http.
//
// Stacks are 16 KiB: pooled for the switch and spawn metrics, with guard pages (mprotect, as
// Boost has them) for the memory metrics.
#include <boost/fiber/all.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "../c/memory.h"

namespace fibers = boost::fibers;
using boost::this_fiber::yield;

namespace {

constexpr std::size_t stack_bytes = 16384, batch = 1000, capacity = 128, used_bytes = 600;
constexpr int warm_yields = 2, exit_not_offered = 77;

std::uint64_t cpu_ns()
{
	timespec t{};

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return std::uint64_t(t.tv_sec) * 1000000000u + std::uint64_t(t.tv_nsec);
}

double timed(std::size_t ops, const std::function<void()> &body)
{
	auto begin = cpu_ns();

	body();
	return double(cpu_ns() - begin) / double(ops);
}

// Boost.Fiber has no semaphore; this is one from its mutex and condition variable.
class semaphore {
public:
	void post()
	{
		{
			std::lock_guard<fibers::mutex> guard(lock_);
			count_++;
		}
		more_.notify_one();
	}

	void wait()
	{
		std::unique_lock<fibers::mutex> guard(lock_);

		more_.wait(guard, [this] { return count_ > 0; });
		count_--;
	}

private:
	fibers::mutex lock_;
	fibers::condition_variable more_;
	long count_ = 0;
};

// As Boost's protected_fixedsize_stack, but a guard that the kernel refuses is an error here; there
// it is an assertion, and without assertions a stack without a guard.
struct guarded_stacks {
	boost::context::stack_context allocate()
	{
		constexpr std::size_t page = 4096, bytes = stack_bytes + page;
		void *low = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		boost::context::stack_context stack;

		if (low == MAP_FAILED)
			throw std::system_error(errno, std::generic_category(), "mmap of a stack");
		if (mprotect(low, page, PROT_NONE))
			throw std::system_error(errno, std::generic_category(), "mprotect of a guard");
		stack.size = bytes;
		stack.sp = static_cast<char *>(low) + bytes;
		return stack;
	}

	void deallocate(boost::context::stack_context &stack) noexcept
	{
		munmap(static_cast<char *>(stack.sp) - stack.size, stack.size);
	}
};

std::vector<std::size_t> start_order(std::size_t count, bool random)
{
	std::vector<std::size_t> order(count);
	std::uint64_t x = 88172645463325252u;

	std::iota(order.begin(), order.end(), std::size_t(0));
	for (std::size_t i = count - 1; random && i > 0; i--) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		std::swap(order[i], order[x % (i + 1)]);
	}
	return order;
}

double yields(std::size_t ops, std::size_t threads, bool touch)
{
	std::size_t rounds = std::max<std::size_t>(ops / threads, 1), finished = 0;
	std::uint64_t begin = 0, end = 0;
	std::vector<semaphore> gates(threads);
	std::vector<fibers::fiber> all;
	fibers::pooled_fixedsize_stack stacks(stack_bytes);

	all.reserve(threads);
	for (auto &gate : gates)
		all.emplace_back(std::allocator_arg, stacks, [&] {
			volatile std::uint64_t lines[16] = {};

			gate.wait();
			for (int i = 0; i < warm_yields; i++)
				yield();
			if (begin == 0)
				begin = cpu_ns();
			for (std::size_t i = 0; i < rounds; i++) {
				if (touch) {
					lines[0] = lines[0] + 1;
					lines[8] = lines[8] + 1;
				}
				yield();
			}
			if (++finished == threads)
				end = cpu_ns();
		});
	for (auto i : start_order(threads, touch))
		gates[i].post();
	for (auto &fiber : all)
		fiber.join();
	return double(end - begin) / double(rounds * threads);
}

double spawn_join(std::size_t ops)
{
	std::size_t batches = std::max<std::size_t>(ops / batch, 1);
	fibers::pooled_fixedsize_stack stacks(stack_bytes);
	std::vector<fibers::fiber> all;

	std::uint64_t begin = 0;

	all.reserve(batch);
	for (std::size_t b = 0; b <= batches; b++) { // the first batch touches memory, uncounted
		if (b == 1)
			begin = cpu_ns();
		for (std::size_t i = 0; i < batch; i++)
			all.emplace_back(std::allocator_arg, stacks, [] {});
		for (auto &fiber : all)
			fiber.join();
		all.clear();
	}
	return double(cpu_ns() - begin) / double(batches * batch);
}

double sem_round_trip(std::size_t ops)
{
	semaphore ping, pong;
	fibers::fiber other([&] {
		for (std::size_t i = 0; i < ops; i++) {
			ping.wait();
			pong.post();
		}
	});
	double ns = timed(ops, [&] {
		for (std::size_t i = 0; i < ops; i++) {
			ping.post();
			pong.wait();
		}
	});

	other.join();
	return ns;
}

double mutex(std::size_t ops)
{
	fibers::mutex lock;

	return timed(ops, [&] {
		for (std::size_t i = 0; i < ops; i++) {
			lock.lock();
			lock.unlock();
		}
	});
}

double channel_item(std::size_t ops)
{
	fibers::buffered_channel<std::size_t> items(capacity);
	fibers::fiber producer([&] {
		for (std::size_t i = 0; i < ops; i++)
			items.push(i);
		items.close();
	});
	std::size_t sum = 0;
	double ns = timed(ops, [&] {
		for (auto i : items)
			sum += i;
	});

	producer.join();
	if (sum != ops * (ops - 1) / 2)
		throw std::runtime_error("items lost");
	return ns;
}

void park(semaphore &never, bool deep, std::size_t &waiting)
{
	volatile char used[used_bytes];

	std::memset(const_cast<char *>(used), 1, deep ? sizeof used : 1);
	waiting++;
	never.wait();
}

int parked(std::size_t threads, bool deep)
{
	guarded_stacks stacks;
	semaphore never;
	std::size_t waiting = 0, created = 0;
	long checkpoint = 1;
	double memory = memory_bytes();
	auto begin = cpu_ns();
	std::string error;

	try {
		while (created < threads) {
			fibers::fiber(std::allocator_arg, stacks, [&] { park(never, deep, waiting); })
				.detach();
			created++;
			if (created % batch != 0 && long(created) != checkpoint && created != threads)
				continue;
			while (waiting < created)
				yield();
			if (long(created) == checkpoint) {
				std::printf("at_%zu %.0f\n", created, double(cpu_ns() - begin));
				checkpoint = next_checkpoint(checkpoint);
			}
		}
	} catch (const std::exception &e) {
		error = e.what();
	}
	auto used_ns = cpu_ns() - begin;
	double count = double(std::max<std::size_t>(created, 1));

	std::printf("reached %zu\ncreate_ns %.1f\nbytes %.1f\nvmas %ld\n", created,
		    double(used_ns) / count, (memory_bytes() - memory) / count, vma_count());
	std::fflush(stdout);
	if (!error.empty())
		std::fprintf(stderr, "%s\n", error.c_str());
	_exit(0);
}

int run(const std::string &metric, std::size_t ops, std::size_t threads)
{
	double ns;

	if (metric == "yield")
		ns = yields(ops, threads, false);
	else if (metric == "yield_touch")
		ns = yields(ops, threads, true);
	else if (metric == "spawn_join")
		ns = spawn_join(ops);
	else if (metric == "sem_round_trip")
		ns = sem_round_trip(ops);
	else if (metric == "mutex")
		ns = mutex(ops);
	else if (metric == "channel_item")
		ns = channel_item(ops);
	else if (metric == "parked")
		return parked(threads, false);
	else if (metric == "hibernated")
		return parked(threads, true);
	else {
		std::fprintf(stderr, "Boost.Fiber has no %s\n", metric.c_str());
		return exit_not_offered;
	}
	std::printf("ns %.3f\n", ns);
	return 0;
}

} // namespace

int main(int argc, char **argv)
try {
	if (argc < 4) {
		std::fprintf(stderr, "usage: boost_fiber METRIC OPS THREADS\n");
		return 2;
	}
	return run(argv[1], std::max(std::stoull(argv[2]), 1ull), std::max(std::stoull(argv[3]), 1ull));
} catch (const std::exception &e) {
	std::fprintf(stderr, "%s\n", e.what());
	return 1;
}
