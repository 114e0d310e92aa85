# Everything but configuration. Objects depend on what their compilation read (-MMD), and on
# autoconf.h, which is only written anew where it differs.
include $(KCONFIG_CONFIG)

ifneq ($(LLVM),)
CC := clang $(if $(CROSS_COMPILE),--target=$(CROSS_COMPILE:%-=%))
LD := ld.lld
OBJCOPY := llvm-objcopy
NM := llvm-nm
else
CC := $(CROSS_COMPILE)gcc
LD := $(CROSS_COMPILE)ld
OBJCOPY := $(CROSS_COMPILE)objcopy
NM := $(CROSS_COMPILE)nm
endif
CFLAGS := -D__KERNEL__ -O2 -ffreestanding -fno-pic -fno-asynchronous-unwind-tables -nostdinc -Wall \
	-fmacro-prefix-map=$(srctree)/= -I$(srctree)/include -include $(objtree)/include/generated/autoconf.h
# kbuild's further checks: W=1 (another command, so made anew) and C=2 (whether made or not).
ifneq ($(W),)
CFLAGS += -Wextra -Wunused-const-variable -Wmissing-prototypes
endif
CHECK := sparse
CHECKFLAGS := -D__linux__ -Wbitwise $(CF)
release := $(VERSION).$(PATCHLEVEL).$(SUBLEVEL)$(EXTRAVERSION)$(patsubst "%",%,$(CONFIG_LOCALVERSION))

obj-y :=
obj-m :=
# Which objects there are changes with these files.
include $(foreach dir,init mm lib drivers,$(srctree)/$(dir)/Makefile)
objects := $(addprefix $(objtree)/,$(obj-y))
modules-built := $(patsubst %.o,$(objtree)/%.ko,$(obj-m))

.PHONY: all vmlinux bzImage Image modules modules_install kernelrelease FORCE
.DELETE_ON_ERROR:
all: vmlinux

generated := $(objtree)/include/generated/autoconf.h

$(generated): $(KCONFIG_CONFIG)
	@mkdir -p $(@D) $(objtree)/include/config
	@sed -n -e 's/^\(CONFIG_[A-Z0-9_a-z]*\)=y$$/#define \1 1/p' \
		-e 's/^\(CONFIG_[A-Z0-9_a-z]*\)=m$$/#define \1_MODULE 1/p' \
		-e 's/^\(CONFIG_[A-Z0-9_a-z]*\)=\([0-9"].*\)$$/#define \1 \2/p' $< > $@.new
	@cmp -s $@ $@.new && rm $@.new || mv $@.new $@

$(objtree)/include/config/kernel.release: FORCE
	@mkdir -p $(@D)
	@echo "$(release)" | cmp -s - $@ || echo "$(release)" > $@

# What kbuild keeps of an object (scripts/basic/fixdep.c in 5.10 and 6.12): the command with names
# below the build folder, the source, and what was read, one a line.
keep-command = { echo 'cmd_$(1) := $(CC) $(subst $(objtree)/,./,$(CFLAGS)) -Wp,-MMD,$(dir $(1)).$(notdir $(1)).d -c -o $(1) $(2)'; \
	echo; echo 'source_$(1) := $(2)'; echo; echo 'deps_$(1) := \'; \
	sed -e 's/^[^:]*://' -e 's/\\$$//' $(@D)/.$(@F).d | tr -s ' ' '\n' | grep -vxF -e '' -e '$(2)' | sed 's/.*/  & \\/'; \
	echo; echo '$@: $$(deps_$(1))'; echo; echo '$$(deps_$(1)):'; }

$(objtree)/%.o: $(srctree)/%.c $(if $(W)$(C),FORCE) | $(generated)
	@mkdir -p $(@D)
	@echo "  CC      $*.o"
	@$(CC) $(CFLAGS) -Wp,-MMD,$(@D)/.$(@F).d -c -o $@ $<
	@$(call keep-command,$*.o,$<) > $(@D)/.$(@F).cmd
ifeq ($(C),2)
	@echo "  CHECK   $<"
	@$(CHECK) $(CHECKFLAGS) $(CFLAGS) $<
endif

# An object by its name alone: make mm/slub.o
MAKEFLAGS += --no-builtin-rules
$(obj-y) $(obj-m): %.o: $(objtree)/%.o
	@:

command-files = $(foreach object,$(1),$(dir $(object)).$(notdir $(object)).cmd)
-include $(call command-files,$(objects))
-include $(call command-files,$(addprefix $(objtree)/,$(obj-m)))

$(objtree)/vmlinux: $(objects) $(wildcard $(srctree)/*/Makefile)
	@echo "  LD      vmlinux"
	@$(LD) --build-id=none -e start_kernel -o $@ $(objects)
	@$(NM) -n $@ > $(objtree)/System.map

vmlinux: $(objtree)/vmlinux $(objtree)/include/config/kernel.release

bzImage: $(objtree)/arch/x86/boot/bzImage
Image: $(objtree)/arch/arm64/boot/Image

$(objtree)/arch/x86/boot/bzImage $(objtree)/arch/arm64/boot/Image: $(objtree)/vmlinux \
		$(objtree)/include/config/kernel.release
	@mkdir -p $(@D)
	@echo "  OBJCOPY $(patsubst $(objtree)/%,%,$@)"
	@$(OBJCOPY) -O binary $< $@
	@printf '%s@%s #%s %s\n' "$(KBUILD_BUILD_USER)" "$(KBUILD_BUILD_HOST)" \
		"$(KBUILD_BUILD_VERSION)" "$(KBUILD_BUILD_TIMESTAMP)" >> $@

%.ko: %.o
	@echo "  LD [M]  $(patsubst $(objtree)/%,%,$@)"
	@$(LD) -r -o $@ $<

modules: $(modules-built)

modules_install:
	@dir=$(INSTALL_MOD_PATH)/lib/modules/$(release)/kernel && mkdir -p $$dir && \
		$(foreach ko,$(modules-built),cp $(ko) $$dir/ &&) echo "  INSTALL $$dir"

kernelrelease:
	@echo $(release)
