#!lua flags=allow-oom
-- prepare.lua: makes what every partition has.  Safe to repeat; a full server allows it, or nothing could restart there.
--
-- args  {version, group}: of the data, and of the graph's readers

redis.call('HSETNX', K.meta, 'version', args.version)
redis.pcall('XGROUP', 'CREATE', K.graph, args.group, '0', 'MKSTREAM')
return cmsgpack.pack('ok')
